/**
 * The JSON Schema that an input's value has to fit, checked by the reducer itself, so that it holds for whoever answers
 * and is decided in one place. It runs in the workflow: no code is generated, every check is bounded, and a schema that
 * says what cannot be checked here is refused when it is asked with, not passed over in silence.
 */
import { canonicalJson, clip, type Json, type JsonObject } from './json.js';

/** What describes a value and is not checked. `format` is among them, as in JSON Schema's own default. */
const DESCRIBES: readonly string[] = Object.freeze([
  ...['$schema', '$id', '$comment', '$defs', 'definitions', 'title', 'description', 'default', 'examples', 'format'],
  ...['deprecated', 'readOnly', 'writeOnly', 'contentMediaType', 'contentEncoding', 'enumNames'],
]);
const TYPES: readonly unknown[] = Object.freeze(['null', 'boolean', 'object', 'array', 'number', 'integer', 'string']);
const SUBSCHEMAS: readonly string[] = Object.freeze(['items', 'additionalProperties', 'propertyNames', 'not']);
const LISTS: readonly string[] = Object.freeze(['anyOf', 'oneOf', 'allOf', 'prefixItems']);
const MAPS: readonly string[] = Object.freeze(['properties', '$defs', 'definitions']);
const COUNTS: readonly string[] = Object.freeze([
  ...['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'],
]);
const NUMBERS: readonly string[] = Object.freeze([
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
]);

/** So many schemas are looked at for one value, through references and alternatives. */
const MAX_STEPS = 20_000;
const MAX_NESTING = 300;
/**
 * So much may be looked at for one value, in characters or entries of lists. It takes some tenths of a second: a workflow
 * task has to be done within two, and every reader does the same once more.
 */
const MAX_WORK = 5_000_000;
/** A pattern is matched against text of at most so many characters. */
const MAX_PATTERN_TEXT = 256;
const MAX_QUANTIFIERS = 3;
const MAX_PATTERN_LENGTH = 500;
/** A step of a match is so much cheaper than to look at a character here. */
const MATCHES_PER_CHARACTER = 10;

/** Why `schema` cannot be asked with, or undefined when every keyword in it is taken. */
export function valueSchemaProblem(schema: Json): string | undefined {
  const document: Document = { root: schema, schemas: new Set(), references: [] };
  const problem = problemAt(schema, document, 'valueSchema');
  if (problem !== undefined) return problem;
  // A reference to what is no schema here (a `default`, say) would bring in what nobody has looked at.
  const lost = document.references.find(({ to }) => {
    const found = resolve(schema, to);
    return typeof found !== 'boolean' && !(isObject(found) && document.schemas.has(found));
  });
  return lost === undefined ? undefined : `${lost.where}: must point into this schema, like "#/$defs/name"`;
}

/** Why `value` does not fit, as "path: reason", or undefined when it does. `schema` has no problem of its own. */
export function valueProblem(schema: Json, value: Json): string | undefined {
  const fit = new Fit(schema);
  const problem = fit.problem(schema, value, 'value');
  // What was not looked at to the end fits nothing, also not by way of a `not`.
  return fit.exhausted ? 'value: takes too long to be checked' : problem;
}

interface Document {
  readonly root: Json;
  /** Every schema in it whose keywords were looked at. */
  readonly schemas: Set<JsonObject>;
  readonly references: { readonly to: string; readonly where: string }[];
}

function problemAt(schema: Json | undefined, document: Document, at: string): string | undefined {
  if (typeof schema === 'boolean') return undefined;
  if (!isObject(schema)) return `${at}: must be a JSON Schema`;
  document.schemas.add(schema);
  for (const [keyword, given] of Object.entries(schema)) {
    const where = `${at}.${keyword}`;
    const problem = keywordProblem(keyword, given, document, where);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function keywordProblem(keyword: string, given: Json, document: Document, where: string): string | undefined {
  if (SUBSCHEMAS.includes(keyword)) return problemAt(given, document, where);
  if (LISTS.includes(keyword)) {
    if (!Array.isArray(given) || given.length === 0) return `${where}: must be a list of schemas`;
    return firstOf(given.map((each, i) => () => problemAt(each, document, `${where}[${i}]`)));
  }
  if (MAPS.includes(keyword)) {
    if (!isObject(given)) return `${where}: must be an object of schemas`;
    return firstOf(
      Object.entries(given).map(
        ([name, each]) =>
          () =>
            problemAt(each, document, `${where}.${name}`),
      ),
    );
  }
  if (COUNTS.includes(keyword)) return isCount(given) ? undefined : `${where}: must be a whole number from 0`;
  if (NUMBERS.includes(keyword)) {
    const fits = typeof given === 'number' && (keyword !== 'multipleOf' || given > 0);
    return fits ? undefined : `${where}: must be a number`;
  }
  switch (keyword) {
    case 'type': {
      const types = Array.isArray(given) ? given : [given];
      return types.length > 0 && types.every((type) => TYPES.includes(type)) ? undefined : `${where}: unknown type`;
    }
    case 'enum':
      return Array.isArray(given) && given.length > 0 ? undefined : `${where}: must be a list of values`;
    case 'const':
      return undefined;
    case 'required':
      return Array.isArray(given) && given.every((name) => typeof name === 'string')
        ? undefined
        : `${where}: must be a list of names`;
    case 'uniqueItems':
      return typeof given === 'boolean' ? undefined : `${where}: must be true or false`;
    case 'pattern':
      return patternProblem(given, where);
    case '$ref':
      if (typeof given !== 'string') return `${where}: must point into this schema, like "#/$defs/name"`;
      document.references.push({ to: given, where });
      return undefined;
    default:
      return DESCRIBES.includes(keyword) || keyword.startsWith('x-')
        ? undefined
        : `${where}: this keyword is not taken; check it in the provider`;
  }
}

/** A pattern can take for ever, and here it would hold up the workflow: only what is plain is taken. */
function patternProblem(given: Json, where: string): string | undefined {
  if (typeof given !== 'string' || given.length > MAX_PATTERN_LENGTH)
    return `${where}: must be a text of at most ${MAX_PATTERN_LENGTH} characters`;
  if (/[()|]/u.test(plainOf(given)) || /\\[1-9k]/u.test(given) || quantifiersOf(given) > MAX_QUANTIFIERS)
    return `${where}: a pattern has no groups, no "|" and at most ${MAX_QUANTIFIERS} quantifiers; check it in the provider`;
  try {
    // Only a match compiles it.
    new RegExp(given, 'u').test('');
    return undefined;
  } catch {
    return `${where}: not a regular expression`;
  }
}

/** Classes and escapes stand for one character each. */
function plainOf(pattern: string): string {
  return pattern.replace(/\\./gu, 'e').replace(/\[[^\]]*\]/gu, 'c');
}

function quantifiersOf(pattern: string): number {
  return plainOf(pattern).match(/[*+?{]/gu)?.length ?? 0;
}

/** What a match may cost: each quantifier may try every length, and all of that from every place in the text. */
function matchWork(pattern: string, text: string): number {
  const tries = quantifiersOf(pattern) + (pattern.startsWith('^') ? 0 : 1);
  return pattern.length + (text.length + 1) ** tries / MATCHES_PER_CHARACTER;
}

function firstOf(checks: readonly (() => string | undefined)[]): string | undefined {
  for (const check of checks) {
    const problem = check();
    if (problem !== undefined) return problem;
  }
  return undefined;
}

class Fit {
  /** It took too long: whatever it said since counts for nothing. */
  exhausted = false;
  private steps = 0;
  private nesting = 0;
  private work = 0;
  /** Each object and list is written out once, however often it is compared. */
  private readonly texts = new Map<object, string>();

  constructor(private readonly root: Json) {}

  problem(schema: Json | undefined, value: Json, at: string): string | undefined {
    this.steps += 1;
    // A reference to itself would never end.
    if (this.steps > MAX_STEPS || this.nesting > MAX_NESTING || !this.afford(1)) return this.tooLong(at);
    this.nesting += 1;
    const problem = this.check(schema, value, at);
    this.nesting -= 1;
    return problem;
  }

  private afford(work: number): boolean {
    this.work += work;
    return !this.exhausted && this.work <= MAX_WORK;
  }

  private tooLong(at: string): string {
    this.exhausted = true;
    return `${at}: takes too long to be checked`;
  }

  private check(schema: Json | undefined, value: Json, at: string): string | undefined {
    if (schema === false) return `${at}: nothing is allowed here`;
    if (!isObject(schema)) return undefined;
    return (
      this.general(schema, value, at) ??
      (typeof value === 'number' ? numberProblem(schema, value, at) : undefined) ??
      (typeof value === 'string' ? this.text(schema, value, at) : undefined) ??
      (Array.isArray(value) ? this.list(schema, value, at) : undefined) ??
      (isObject(value) ? this.object(schema, value, at) : undefined)
    );
  }

  private general(schema: JsonObject, value: Json, at: string): string | undefined {
    const { type, anyOf, oneOf, allOf, not, $ref } = schema;
    const types = type === undefined ? [] : Array.isArray(type) ? type : [type];
    const choices = Array.isArray(schema.enum) ? schema.enum : [];
    if (!this.afford(types.length + choices.length)) return this.tooLong(at);
    if (types.length > 0 && !types.some((each) => isOfType(value, each))) return `${at}: must be ${types.join(' or ')}`;
    if (Object.hasOwn(schema, 'const') && !this.same(value, schema.const ?? null))
      return `${at}: must be ${this.brief(schema.const ?? null)}`;
    if (choices.length > 0 && !choices.some((each) => this.same(value, each)))
      return `${at}: must be one of ${this.brief(choices)}`;
    if (typeof $ref === 'string') {
      if (!this.afford($ref.length)) return this.tooLong(at);
      const problem = this.problem(resolve(this.root, $ref), value, at);
      if (problem !== undefined) return problem;
    }
    for (const each of Array.isArray(allOf) ? allOf : []) {
      const problem = this.problem(each, value, at);
      if (problem !== undefined) return problem;
    }
    if (Array.isArray(anyOf) && !anyOf.some((each) => this.problem(each, value, at) === undefined))
      return `${at}: fits none of the alternatives`;
    if (Array.isArray(oneOf)) {
      const fitting = oneOf.filter((each) => this.problem(each, value, at) === undefined).length;
      if (fitting !== 1) return `${at}: must fit one of the alternatives, and fits ${fitting}`;
    }
    if (not !== undefined && this.problem(not, value, at) === undefined) return `${at}: is what it must not be`;
    return undefined;
  }

  private text(schema: JsonObject, value: string, at: string): string | undefined {
    const { minLength, maxLength, pattern } = schema;
    if (minLength !== undefined || maxLength !== undefined) {
      if (!this.afford(value.length)) return this.tooLong(at);
      const count = countProblem([...value].length, minLength, maxLength, at, 'characters');
      if (count !== undefined) return count;
    }
    if (typeof pattern !== 'string') return undefined;
    if (value.length > MAX_PATTERN_TEXT) return `${at}: text with a pattern has at most ${MAX_PATTERN_TEXT} characters`;
    if (!this.afford(matchWork(pattern, value))) return this.tooLong(at);
    return new RegExp(pattern, 'u').test(value) ? undefined : `${at}: must match ${clip(pattern, 200)}`;
  }

  private list(schema: JsonObject, value: Json[], at: string): string | undefined {
    const { minItems, maxItems, uniqueItems, prefixItems, items } = schema;
    const count = countProblem(value.length, minItems, maxItems, at, 'items');
    if (count !== undefined) return count;
    if (!this.afford(value.length + (uniqueItems === true ? this.canonical(value).length : 0))) return this.tooLong(at);
    if (uniqueItems === true && new Set(value.map((each) => this.canonical(each))).size < value.length)
      return `${at}: repeats an item`;
    const first = Array.isArray(prefixItems) ? prefixItems : [];
    return firstOf(
      value.map((each, i) => () => this.problem(i < first.length ? first[i] : items, each, `${at}[${i}]`)),
    );
  }

  private object(schema: JsonObject, value: JsonObject, at: string): string | undefined {
    const { required, additionalProperties, propertyNames } = schema;
    const properties = isObject(schema.properties) ? schema.properties : {};
    const names = Object.keys(value);
    const needed = Array.isArray(required) ? required : [];
    if (!this.afford(names.length + needed.length)) return this.tooLong(at);
    const count = countProblem(names.length, schema.minProperties, schema.maxProperties, at, 'properties');
    if (count !== undefined) return count;
    for (const name of needed) if (!Object.hasOwn(value, String(name))) return `${at}: needs ${this.brief(name)}`;
    for (const name of names) {
      const inside = `${at}.${clip(name, 80)}`;
      const known = Object.hasOwn(properties, name);
      if (!known && additionalProperties === false) return `${at}: has no ${this.brief(name)}`;
      const problem =
        this.problem(propertyNames, name, inside) ??
        this.problem(known ? properties[name] : additionalProperties, value[name] ?? null, inside);
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  private same(a: Json, b: Json): boolean {
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
    return this.canonical(a) === this.canonical(b);
  }

  private canonical(value: Json): string {
    if (typeof value !== 'object' || value === null) return canonicalJson(value);
    let text = this.texts.get(value);
    if (text === undefined) {
      text = canonicalJson(value);
      this.texts.set(value, text);
    }
    return text;
  }

  private brief(value: Json): string {
    return clip(typeof value === 'string' ? JSON.stringify(value.slice(0, 200)) : this.canonical(value), 200);
  }
}

function numberProblem(schema: JsonObject, value: number, at: string): string | undefined {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  if (typeof minimum === 'number' && value < minimum) return `${at}: must be at least ${minimum}`;
  if (typeof maximum === 'number' && value > maximum) return `${at}: must be at most ${maximum}`;
  if (typeof exclusiveMinimum === 'number' && value <= exclusiveMinimum)
    return `${at}: must be over ${exclusiveMinimum}`;
  if (typeof exclusiveMaximum === 'number' && value >= exclusiveMaximum)
    return `${at}: must be under ${exclusiveMaximum}`;
  if (typeof multipleOf !== 'number') return undefined;
  const times = value / multipleOf;
  return Math.abs(times - Math.round(times)) > 1e-9 ? `${at}: must be a multiple of ${multipleOf}` : undefined;
}

function countProblem(
  count: number,
  least: Json | undefined,
  most: Json | undefined,
  at: string,
  what: string,
): string | undefined {
  if (typeof least === 'number' && count < least) return `${at}: needs at least ${least} ${what}`;
  return typeof most === 'number' && count > most ? `${at}: takes at most ${most} ${what}` : undefined;
}

function isOfType(value: Json, type: Json): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'integer':
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isObject(value);
    default:
      return typeof value === type;
  }
}

/** What a JSON pointer inside the schema names. */
function resolve(root: Json, reference: string): Json | undefined {
  if (reference !== '#' && !reference.startsWith('#/')) return undefined;
  let found: Json | undefined = root;
  for (const part of reference.split('/').slice(1)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (Array.isArray(found)) found = found[Number(name)];
    else found = isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  }
  return found;
}

function isCount(value: Json): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
