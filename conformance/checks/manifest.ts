/** What the provider says of itself, and that the catalog has it. */
import { PROTOCOL_VERSION, providerManifestSchema } from '../../protocol/manifest.js';
import { type Check, must, mustEqual, mustRefuse, Skipped } from '../kit.js';

export const manifestChecks: readonly Check[] = [
  {
    name: 'manifest.valid',
    async run(kit) {
      const manifest = await kit.manifest();
      const { error } = providerManifestSchema.safeParse(manifest);
      const [issue] = error?.issues ?? [];
      must(issue === undefined, `${issue?.path.join('.')}: ${issue?.message}`);
      mustEqual('protocolVersion', manifest.protocolVersion, PROTOCOL_VERSION);
      const claimed = Object.entries(manifest.capabilities).filter(([, level]) => level !== 'unsupported');
      return `${manifest.id} ${manifest.version}: ${claimed.map(([name, level]) => `${name} ${level}`).join(', ')}`;
    },
  },
  {
    name: 'manifest.announced',
    async run(kit) {
      const { own } = kit.options;
      if (own === undefined) throw new Skipped('the provider itself is not at hand');
      const announced = await kit.manifest();
      for (const field of ['name', 'version', 'protocolVersion', 'topologies'] as const)
        mustEqual(`the catalog's ${field}`, announced[field], own[field]);
      const levels = (capabilities: object): unknown => Object.entries(capabilities).sort();
      mustEqual("the catalog's capabilities", levels(announced.capabilities), levels(own.capabilities));
      return undefined;
    },
  },
  {
    name: 'manifest.config',
    async run(kit) {
      const schema = (await kit.manifest()).metadata?.configSchema;
      const isStrict = typeof schema === 'object' && schema !== null && 'additionalProperties' in schema;
      if (!isStrict || schema.additionalProperties !== false) throw new Skipped('its config may have any key');
      const { text } = kit.scenarios;
      const config = { ...text.config, conformanceNoSuchKey: true };
      await mustRefuse('an unknown key in config', kit.start({ ...text, config }), 'VALIDATION_ERROR');
      return undefined;
    },
  },
];
