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
/** A pattern is matched against text of at most so many characters: with three quantifiers that takes milliseconds. */
const MAX_PATTERN_TEXT = 256;
const MAX_QUANTIFIERS = 3;
const MAX_PATTERN_LENGTH = 500;

/** Why `schema` cannot be asked with, or undefined when every keyword in it is taken. */
export function valueSchemaProblem(schema: Json): string | undefined {
  return problemAt(schema, schema, 'valueSchema');
}

/** Why `value` does not fit, as "path: reason", or undefined when it does. `schema` has no problem of its own. */
export function valueProblem(schema: Json, value: Json): string | undefined {
  const fit = new Fit(schema);
  return fit.problem(schema, value, 'value');
}

function problemAt(schema: Json | undefined, root: Json, at: string): string | undefined {
  if (typeof schema === 'boolean') return undefined;
  if (!isObject(schema)) return `${at}: must be a JSON Schema`;
  for (const [keyword, given] of Object.entries(schema)) {
    const where = `${at}.${keyword}`;
    const problem = keywordProblem(keyword, given, root, where);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function keywordProblem(keyword: string, given: Json, root: Json, where: string): string | undefined {
  if (SUBSCHEMAS.includes(keyword)) return problemAt(given, root, where);
  if (LISTS.includes(keyword)) {
    if (!Array.isArray(given) || given.length === 0) return `${where}: must be a list of schemas`;
    return firstOf(given.map((each, i) => () => problemAt(each, root, `${where}[${i}]`)));
  }
  if (MAPS.includes(keyword)) {
    if (!isObject(given)) return `${where}: must be an object of schemas`;
    return firstOf(
      Object.entries(given).map(
        ([name, each]) =>
          () =>
            problemAt(each, root, `${where}.${name}`),
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
      return typeof given === 'string' && isSchema(resolve(root, given))
        ? undefined
        : `${where}: must point into this schema, like "#/$defs/name"`;
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
  // Classes and escapes stand for one character each.
  const plain = given.replace(/\\./gu, 'e').replace(/\[[^\]]*\]/gu, 'c');
  const quantifiers = plain.match(/[*+?{]/gu)?.length ?? 0;
  if (/[()|]/u.test(plain) || /\\[1-9k]/u.test(given) || quantifiers > MAX_QUANTIFIERS)
    return `${where}: a pattern has no groups, no "|" and at most ${MAX_QUANTIFIERS} quantifiers; check it in the provider`;
  try {
    // Only a match compiles it.
    new RegExp(given, 'u').test('');
    return undefined;
  } catch {
    return `${where}: not a regular expression`;
  }
}

function firstOf(checks: readonly (() => string | undefined)[]): string | undefined {
  for (const check of checks) {
    const problem = check();
    if (problem !== undefined) return problem;
  }
  return undefined;
}

class Fit {
  private steps = 0;
  private nesting = 0;

  constructor(private readonly root: Json) {}

  problem(schema: Json | undefined, value: Json, at: string): string | undefined {
    this.steps += 1;
    // A reference to itself would never end.
    if (this.steps > MAX_STEPS || this.nesting > MAX_NESTING) return `${at}: takes too long to be checked`;
    this.nesting += 1;
    const problem = this.check(schema, value, at);
    this.nesting -= 1;
    return problem;
  }

  private check(schema: Json | undefined, value: Json, at: string): string | undefined {
    if (schema === false) return `${at}: nothing is allowed here`;
    if (!isObject(schema)) return undefined;
    return (
      this.general(schema, value, at) ??
      (typeof value === 'number' ? numberProblem(schema, value, at) : undefined) ??
      (typeof value === 'string' ? textProblem(schema, value, at) : undefined) ??
      (Array.isArray(value) ? this.list(schema, value, at) : undefined) ??
      (isObject(value) ? this.object(schema, value, at) : undefined)
    );
  }

  private general(schema: JsonObject, value: Json, at: string): string | undefined {
    const { type, anyOf, oneOf, allOf, not, $ref } = schema;
    const types = type === undefined ? undefined : Array.isArray(type) ? type : [type];
    if (types !== undefined && !types.some((each) => isOfType(value, each)))
      return `${at}: must be ${types.join(' or ')}`;
    if (Object.hasOwn(schema, 'const') && !same(value, schema.const ?? null))
      return `${at}: must be ${brief(schema.const ?? null)}`;
    if (Array.isArray(schema.enum) && !schema.enum.some((each) => same(value, each)))
      return `${at}: must be one of ${brief(schema.enum)}`;
    if (typeof $ref === 'string') {
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

  private list(schema: JsonObject, value: readonly Json[], at: string): string | undefined {
    const { minItems, maxItems, uniqueItems, prefixItems, items } = schema;
    const count = countProblem(value.length, minItems, maxItems, at, 'items');
    if (count !== undefined) return count;
    if (uniqueItems === true && new Set(value.map(canonicalJson)).size < value.length) return `${at}: repeats an item`;
    const first = Array.isArray(prefixItems) ? prefixItems : [];
    return firstOf(
      value.map((each, i) => () => this.problem(i < first.length ? first[i] : items, each, `${at}[${i}]`)),
    );
  }

  private object(schema: JsonObject, value: JsonObject, at: string): string | undefined {
    const { required, additionalProperties, propertyNames } = schema;
    const properties = isObject(schema.properties) ? schema.properties : {};
    const names = Object.keys(value);
    const count = countProblem(names.length, schema.minProperties, schema.maxProperties, at, 'properties');
    if (count !== undefined) return count;
    for (const name of Array.isArray(required) ? required : [])
      if (!Object.hasOwn(value, String(name))) return `${at}: needs ${brief(name)}`;
    for (const name of names) {
      const inside = `${at}.${clip(name, 80)}`;
      const known = Object.hasOwn(properties, name);
      if (!known && additionalProperties === false) return `${at}: has no ${brief(name)}`;
      const problem =
        this.problem(propertyNames, name, inside) ??
        this.problem(known ? properties[name] : additionalProperties, value[name] ?? null, inside);
      if (problem !== undefined) return problem;
    }
    return undefined;
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

function textProblem(schema: JsonObject, value: string, at: string): string | undefined {
  const { minLength, maxLength, pattern } = schema;
  const count = countProblem([...value].length, minLength, maxLength, at, 'characters');
  if (count !== undefined || typeof pattern !== 'string') return count;
  if (value.length > MAX_PATTERN_TEXT) return `${at}: text with a pattern has at most ${MAX_PATTERN_TEXT} characters`;
  return new RegExp(pattern, 'u').test(value) ? undefined : `${at}: must match ${clip(pattern, 200)}`;
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

function isSchema(value: Json | undefined): boolean {
  return typeof value === 'boolean' || isObject(value);
}

function isCount(value: Json): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function same(a: Json, b: Json): boolean {
  return canonicalJson(a) === canonicalJson(b);
}

function brief(value: Json): string {
  return clip(JSON.stringify(value), 200);
}
