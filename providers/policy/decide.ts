/**
 * What the rules say to one permission request. Deny wins over ask, ask over allow; what no rule allows is asked about.
 * A rule that denies or asks matches whatever it may mean; one that allows matches only what is known for certain: a
 * plain command, paths that stay where they seem to be.
 */
import { join } from 'node:path';
import { isInside, realPathOf } from '../workspace/inside.js';
import { mayRun } from './launchers.js';
import type { Rule } from './rules.js';
import { beginsWith, type CommandLine } from './words.js';

/** A tool call, as far as it has been told. */
export interface ToolFacts {
  /** The agent, model or program that asks. */
  readonly source: string;
  /** The tool's name, or its kind where only that is told. */
  readonly tool?: string | undefined;
  /** `tool` is one of the kinds of the Agent Client Protocol, which say what it does. */
  readonly isKind?: boolean | undefined;
  readonly command?: CommandLine | undefined;
  /** Absolute paths that it is about. */
  readonly paths: readonly string[];
  /** It names places of which nobody can tell where they are, such as another machine's. */
  readonly hasUnknownPlace?: boolean | undefined;
}

export interface Decision {
  readonly answer: 'allow' | 'ask' | 'deny';
  /** The rule that decided. */
  readonly rule: string;
}

/** Tools that are about files: without a path, nobody knows which. */
const ABOUT_FILES = ['read', 'edit', 'delete', 'move'];

/** A path as it was written, and where it leads. */
interface RealPath {
  readonly said: string;
  /** Undefined where nobody can tell. */
  readonly real: string | undefined;
}

/** What a rule's path covers. */
interface Area extends RealPath {
  /** For a relative path: that place in the real workspace, without following what it may be a link to. */
  readonly placed: string | undefined;
}

interface Matched {
  readonly rule: Rule;
  readonly area: Area | undefined;
}

/** Which answer goes before which. */
const ANSWERS = ['deny', 'ask', 'allow'] as const;

/** Over a request that may be meant in several ways: one denies or asks for all of them, and all have to be allowed. */
export async function decideAll(
  rules: readonly Rule[],
  facts: readonly ToolFacts[],
  workspace: string | undefined,
): Promise<Decision | undefined> {
  const decisions = await Promise.all(facts.map((each) => decide(rules, each, workspace)));
  for (const answer of ANSWERS) {
    if (answer === 'allow' && decisions.includes(undefined)) return undefined;
    const found = decisions.find((decision) => decision?.answer === answer);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Undefined when no rule has anything to say. `workspace` is the absolute path of the folder that is worked in. Where
 * there is none, rules have absolute paths only, and one that allows without a path leaves paths to the tool.
 */
export async function decide(
  rules: readonly Rule[],
  facts: ToolFacts,
  workspace: string | undefined,
): Promise<Decision | undefined> {
  const concerned = rules.filter((rule) => isOf(rule, facts));
  if (concerned.length === 0) return undefined;
  const resolved = async (said: string): Promise<RealPath> => ({ said, real: await realPathOf(said) });
  const root = workspace === undefined ? undefined : await resolved(workspace);
  const paths = await Promise.all(facts.paths.map(resolved));
  const all = await Promise.all(concerned.map(async (rule) => ({ rule, area: await areaOf(rule, root) })));
  for (const answer of ANSWERS)
    for (const matched of all)
      if (says(answer, matched, facts, paths, root)) return { answer, rule: matched.rule.name };
  return undefined;
}

async function areaOf({ path }: Rule, root: RealPath | undefined): Promise<Area | undefined> {
  if (path === undefined) return undefined;
  const said = path.isAbsolute ? path.words : join(root?.said ?? '', path.words);
  const real = await realPathOf(said);
  const placed = root?.real === undefined ? undefined : join(root.real, path.words);
  return { said, real, placed: path.isAbsolute ? real : placed };
}

function says(
  answer: Decision['answer'],
  matched: Matched,
  facts: ToolFacts,
  paths: readonly RealPath[],
  root: RealPath | undefined,
): boolean {
  const { rule, area } = matched;
  if (answer === 'allow') return rule.answer === 'allow' && allows(matched, facts, paths, root);
  if (rule.answer === answer && mayMean(matched, facts, paths)) return true;
  // A place that nobody can tell may be the one that this rule is about: a person looks.
  return answer === 'ask' && rule.answer !== 'allow' && area !== undefined && facts.hasUnknownPlace === true;
}

function mayMean({ rule, area }: Matched, facts: ToolFacts, paths: readonly RealPath[]): boolean {
  const { command } = rule;
  return (
    (command === undefined || facts.command?.parts.some((words) => mayRun(words, command)) === true) &&
    (area === undefined ||
      paths.some(
        ({ said, real }) => isUnder(area.said, said) || isUnder(area.placed, real) || isUnder(area.real, real),
      ))
  );
}

function allows(
  { rule, area }: Matched,
  facts: ToolFacts,
  paths: readonly RealPath[],
  root: RealPath | undefined,
): boolean {
  const { command } = rule;
  const arePathsMeant = area !== undefined || root !== undefined;
  if (arePathsMeant && facts.hasUnknownPlace === true) return false;
  const kind = facts.isKind === true ? facts.tool : undefined;
  if (kind === 'execute' || facts.command !== undefined) {
    // Whatever holds more than plain words is for a person, and so is what the agent does not tell.
    if (facts.command?.kind !== 'plain') return false;
    if (command !== undefined && !beginsWith(facts.command.words, command)) return false;
    // A rule about files says nothing of the commands that run among them.
    if (area !== undefined) return false;
  } else {
    if (command !== undefined) return false;
    if (paths.length === 0 && (area !== undefined || ABOUT_FILES.includes(kind ?? ''))) return false;
  }
  return area === undefined
    ? root === undefined || paths.every(({ real }) => isUnder(root.real, real))
    : paths.every(({ said, real }) => isUnder(area.said, said) && isUnder(area.placed, real));
}

function isOf(rule: Rule, facts: ToolFacts): boolean {
  return (
    (rule.source === undefined || rule.source === facts.source) &&
    // What brings a command is run, whatever the agent calls it.
    (rule.tool === undefined ||
      isNamed(rule.tool, facts.tool) ||
      (rule.tool === 'execute' && facts.isKind === true && facts.command !== undefined && rule.answer !== 'allow'))
  );
}

/** Whether `wanted`, a name or the beginning of one and `*`, is that of `tool`. */
export function isNamed(wanted: string, tool: string | undefined): boolean {
  return wanted === tool || (wanted.endsWith('*') && tool?.startsWith(wanted.slice(0, -1)) === true);
}

function isUnder(area: string | undefined, at: string | undefined): boolean {
  return area !== undefined && at !== undefined && isInside(area, at);
}
