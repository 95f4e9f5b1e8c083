// A strict reader of JSON from outside: 03-bundle.md, "JSON".
//
// Objects become Map in the order of the text, integers BigInt, all other numbers Number: 2 and 2.0 differ.

const DEPTH = 32;
const DIGITS = 32;
const SPACE = new Set([' ', '\t', '\n', '\r']);
const ESCAPES = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;

export class JsonError extends Error {}

/** The text of bytes, which must be whole UTF-8 without a byte order mark. */
function textOf(bytes) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new JsonError('not UTF-8');
  }
}

export function readJson(bytes) {
  const reader = new JsonReader(textOf(bytes));
  const value = reader.value(0);
  reader.space();
  if (reader.at !== reader.text.length) throw new JsonError('text after the value');
  return value;
}

class JsonReader {
  constructor(text) {
    Object.assign(this, { text, at: 0 });
  }

  space() {
    while (SPACE.has(this.text[this.at])) this.at += 1;
  }

  next() {
    this.space();
    return this.text[this.at];
  }

  expect(letter) {
    if (this.next() !== letter) throw new JsonError(`no ${letter} at ${this.at}`);
    this.at += 1;
  }

  /** depth: the arrays and objects around the value. */
  value(depth) {
    const first = this.next();
    if ((first === '{' || first === '[') && depth >= DEPTH) throw new JsonError('too deep');
    if (first === '{') return this.object(depth + 1);
    if (first === '[') return this.list(depth + 1);
    if (first === '"') return this.string();
    for (const [word, value] of [['true', true], ['false', false], ['null', null]]) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  number() {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (match === null || match[0].length > DIGITS) throw new JsonError(`no value at ${this.at}`);
    this.at += match[0].length;
    if (match[1] === undefined && match[2] === undefined) return BigInt(match[0]);
    const number = Number(match[0]);
    if (!Number.isFinite(number)) throw new JsonError('a number beyond binary64');
    return number;
  }

  list(depth) {
    const items = [];
    this.expect('[');
    if (this.next() !== ']') {
      do items.push(this.value(depth));
      while (this.goesOn());
    }
    this.expect(']');
    return items;
  }

  object(depth) {
    const object = new Map();
    this.expect('{');
    if (this.next() !== '}') {
      do {
        this.space();
        const name = this.string();
        if (object.has(name)) throw new JsonError(`the name ${name} twice`);
        this.expect(':');
        object.set(name, this.value(depth));
      } while (this.goesOn());
    }
    this.expect('}');
    return object;
  }

  goesOn() {
    if (this.next() !== ',') return false;
    this.at += 1;
    return true;
  }

  string() {
    let text = '';
    this.expect('"');
    for (;;) {
      const letter = this.text[this.at];
      if (letter === undefined || letter < ' ') throw new JsonError('a string is not closed');
      this.at += 1;
      if (letter === '"') break;
      text += letter === '\\' ? this.escape() : letter;
    }
    if (!text.isWellFormed()) throw new JsonError('half of a surrogate pair');
    return text;
  }

  escape() {
    const letter = this.text[this.at];
    this.at += 1;
    if (letter !== 'u') {
      if (!Object.hasOwn(ESCAPES, letter)) throw new JsonError('a bad escape');
      return ESCAPES[letter];
    }
    const digits = this.text.slice(this.at, this.at + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new JsonError('a bad escape');
    this.at += 4;
    return String.fromCharCode(parseInt(digits, 16));
  }
}
