/** `holdfast setup`: registers what Holdfast needs in a namespace, once and for all. */
import { Output } from '../output.js';
import { setUp } from '../register.js';
import { type CommonFlags, settingOf } from '../session.js';

export async function setup(flags: CommonFlags): Promise<undefined> {
  const { cluster } = await settingOf(flags);
  const out = new Output(flags.json === true);
  await setUp(cluster, (line) => out.tell({ message: line }, line));
}
