/** Which MCP servers there are, by name, and what of their tools a person has to approve. */
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import type { JsonObject } from '../../protocol/json.js';
import { MARKER_VARIABLE } from '../process/environment.js';

const MIN_SECRET_LENGTH = 4;
const text = z.string().refine((value) => !value.includes('\0'), 'must not hold a NUL character');
const secret = text.min(MIN_SECRET_LENGTH, `is too short to be redacted (under ${MIN_SECRET_LENGTH} characters)`);
const variable = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'is no name of an environment variable')
  .refine((key) => key !== MARKER_VARIABLE, `${MARKER_VARIABLE} is set by Holdfast`);
const header = z.string().regex(/^[A-Za-z0-9-]+$/, 'is no name of a header');

const common = {
  /** Of its tools only these. */
  tools: z.array(z.string()).optional(),
  /** True by default: what a server says of its tools is the server's word. */
  needsApproval: z
    .union([
      z.boolean(),
      z.custom<(tool: string, input: JsonObject) => boolean | Promise<boolean>>((value) => typeof value === 'function'),
    ])
    .optional(),
  /** Tools that may be called again when it is not known whether a call went through. */
  idempotent: z.array(z.string()).optional(),
  /** Milliseconds from its start until its tools are known. */
  startTimeoutMs: z.int().min(1).max(600_000).optional(),
};

const serverSchema = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('stdio'),
    ...common,
    command: text.refine((command) => command !== '' && (isAbsolute(command) || !/[\\/]/.test(command)), {
      message: 'must be a bare command name or an absolute path',
    }),
    args: z.array(text).optional(),
    /** An existing directory. */
    cwd: text.refine(isAbsolute, 'must be an absolute path'),
    /** Its whole environment is `passEnv` (names, taken from ours), `env` and `secretEnv`. */
    env: z.record(variable, text).optional(),
    passEnv: z.array(variable).optional(),
    secretEnv: z.record(variable, secret).optional(),
  }),
  z.strictObject({
    type: z.literal('http'),
    ...common,
    url: z.url({ protocol: /^https?$/, error: 'must be an http or https address' }),
    headers: z.record(header, z.string()).optional(),
    /** Headers whose values are secret: name of the header to name of the variable that holds it. */
    headerEnv: z.record(header, variable).optional(),
  }),
]);

export type McpServer = z.input<typeof serverSchema>;

/** A server's name is the beginning of its tools' names. */
export const mcpServersSchema = z.record(
  z.string().regex(/^[A-Za-z0-9][A-Za-z0-9-]{0,31}$/, 'a name is 1–32 of A–Z a–z 0–9 -'),
  serverSchema,
);
