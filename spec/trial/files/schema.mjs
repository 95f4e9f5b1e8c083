// Kinds of fields with their ranges, for values of json.mjs. A kind is a function: value -> true if it is right.

const bytes = (text) => Buffer.byteLength(text, 'utf8');

export const any = () => true;
export const string = (most, least = 0) => (v) => typeof v === 'string' && bytes(v) >= least && bytes(v) <= most;
export const integer = (least, most) => (v) => typeof v === 'bigint' && v >= BigInt(least) && v <= BigInt(most);
export const isNumber = (v) => typeof v === 'bigint' || typeof v === 'number';
export const number = (least, most) => (v) => isNumber(v) && Number(v) >= least && Number(v) <= most;
export const digest = (v) => typeof v === 'string' && v.length === 64 && /^[0-9a-f]+$/.test(v);
export const oneOf = (...values) => (v) => values.includes(v);
export const nullable = (kind) => (v) => v === null || kind(v);

/** Absent or null is the same. */
export const optional = (kind) => (v) => v === undefined || v === null || kind(v);

/** Absent or right, and not null. */
export const absentOr = (kind) => (v) => v === undefined || kind(v);

/** Names that are not in `fields` are ignored. */
export const object = (fields) => (v) =>
  v instanceof Map && Object.entries(fields).every(([name, kind]) => (v.has(name) || kind(undefined)) && kind(v.get(name)));

export const names = (least, most, name, kind) => (v) =>
  v instanceof Map && v.size >= least && v.size <= most && [...v].every(([key, value]) => name(key) && kind(value));

export const list = (least, most, kind) => (v) => Array.isArray(v) && v.length >= least && v.length <= most && v.every(kind);

export const tuple = (...kinds) => (v) => Array.isArray(v) && v.length === kinds.length && kinds.every((kind, i) => kind(v[i]));
