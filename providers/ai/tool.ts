/** A tool that the worker registers, and one as the loop uses it, wherever it comes from. */
import { z } from 'zod';
import { HoldfastError } from '../../protocol/errors.js';
import type { Json, JsonObject } from '../../protocol/json.js';

/** What a tool learns beside its input. */
export interface ToolCallInfo {
  /** Aborts when the run has to stop, or the call takes too long. Settle soon after. */
  readonly signal: AbortSignal;
  /** Unique in the execution and the same when the call is repeated: with the execution's id a key for idempotency. */
  readonly callId: string;
  readonly executionId: string;
  readonly conversationId: string;
}

/** A parameter that is compared bivariantly, so that tools of different inputs fit in one record. */
type Check<I> = { check(input: I): boolean | Promise<boolean> }['check'];

export interface AiTool<I = unknown> {
  /** For the model. */
  readonly description: string;
  /** An object's schema. What the model sends is checked with it before anything runs. */
  readonly input: z.ZodType<I>;
  /** Whether a person is asked first. A check that throws counts as yes. */
  readonly needsApproval: boolean | Check<I>;
  /** It may run again with the same input when its worker died in the middle. Otherwise the model is told. */
  readonly idempotent?: boolean;
  /** Milliseconds for one call; `limits.toolTimeoutMs` by default. */
  readonly timeoutMs?: number;
  /** Text goes to the model as it is, all else as JSON. What it throws is told to the model, which goes on. */
  execute(input: I, call: ToolCallInfo): unknown;
}

/** The tool itself, with its input's type taken from the schema. */
export function aiTool<I>(tool: AiTool<I>): AiTool<I> {
  return tool;
}

/** What a tool answered, for the model. */
export interface ToolOutput {
  readonly output: string;
  readonly isError: boolean;
}

/** A tool as the loop sees it. */
export interface RunnableTool {
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly idempotent: boolean;
  readonly timeoutMs: number | undefined;
  /** What is wrong with `input`, or undefined. */
  problem(input: JsonObject): Promise<string | undefined>;
  /** What it gets of `input` when it runs: trimmed, filled in, turned into something else. Rejects for a wrong one. */
  parsed(input: JsonObject): Promise<unknown>;
  needsApproval(input: JsonObject): Promise<boolean>;
  execute(input: JsonObject, call: ToolCallInfo): Promise<ToolOutput>;
}

/** Throws `VALIDATION_ERROR` when the schema is no object's, or cannot be told to a model. */
export function runnableTool(name: string, tool: AiTool): RunnableTool {
  const { input: schema, needsApproval } = tool;
  const parse = (input: JsonObject) => schema.safeParseAsync(input);
  return {
    description: tool.description,
    inputSchema: inputSchemaOf(name, schema),
    idempotent: tool.idempotent ?? false,
    timeoutMs: tool.timeoutMs,
    async problem(input) {
      const parsed = await parse(input);
      if (parsed.success) return undefined;
      return parsed.error.issues.map((issue) => `${issue.path.join('.') || 'input'}: ${issue.message}`).join('; ');
    },
    parsed: (input) => schema.parseAsync(input),
    async needsApproval(input) {
      return typeof needsApproval === 'boolean' ? needsApproval : await needsApproval(await schema.parseAsync(input));
    },
    async execute(input, call) {
      const result = await tool.execute(await schema.parseAsync(input), call);
      return { output: asText(result), isError: false };
    },
  };
}

function inputSchemaOf(name: string, schema: z.ZodType): JsonObject {
  let json: JsonObject;
  try {
    const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'input' });
    json = JSON.parse(JSON.stringify(rest)) as JsonObject;
  } catch (error) {
    throw invalid(name, `its input cannot be described to a model: ${String(error)}`);
  }
  if (json.type !== 'object') throw invalid(name, 'its input must be the schema of an object');
  return json;
}

function invalid(name: string, message: string): HoldfastError {
  return new HoldfastError('VALIDATION_ERROR', `aiProvider: tools.${name}: ${message}`);
}

function asText(result: unknown): string {
  if (typeof result === 'string') return result;
  if (result === undefined) return '';
  return JSON.stringify(result as Json);
}
