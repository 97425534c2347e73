/** `holdfast serve`: the HTTP gateway, until it is told to stop. */
import { type GatewayFlags, openGateway } from '../gateway.js';
import { Output } from '../output.js';
import { type CommonFlags, settingOf } from '../session.js';

export interface ServeFlags extends CommonFlags, GatewayFlags {}

/** The line on standard output that says where it listens. */
export const LISTENING = 'gateway ready:';

/** SIGTERM and SIGINT end it in order, a second one at once. */
export async function serve(flags: ServeFlags): Promise<undefined> {
  const setting = await settingOf(flags);
  const { gateway, close } = await openGateway(setting, flags, { handleSignals: true });
  const { address, namespace } = setting.cluster;
  const out = new Output(flags.json === true);
  out.tell(
    { type: 'ready', url: gateway.url, address, namespace },
    `${LISTENING} ${gateway.url} for ${address}, namespace ${namespace}; ${gateway.url}/docs says what it takes`,
  );
  await gateway.closed;
  await close();
  out.tell({ type: 'stopped' }, 'gateway stopped');
}
