// A strict reader of JSON (RFC 8259) for files from outside.
//
// Whole numbers become BigInt, all others Number, so that 2 and 2.0 differ. `where` has the bytes of each string of the
// outermost object: name -> [begin, end) of the text between its quotes.

const SPACE = new Set([' ', '\t', '\n', '\r']);
const ESCAPES = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;

export class JsonError extends Error {}

export class JsonReader {
  constructor(text, depth) {
    Object.assign(this, { text, depth, at: 0, where: new Map() });
  }

  static read(text, depth) {
    const reader = new JsonReader(text, depth);
    const value = reader.value(0, true);
    reader.space();
    if (reader.at !== text.length) throw new JsonError('text after the value');
    return { value, where: reader.where };
  }

  space() {
    while (SPACE.has(this.text[this.at])) this.at += 1;
  }

  expect(part) {
    this.space();
    if (!this.text.startsWith(part, this.at)) throw new JsonError(`no ${part} at ${this.at}`);
    this.at += part.length;
  }

  next() {
    this.space();
    return this.text[this.at];
  }

  value(depth, outermost = false) {
    if (depth > this.depth) throw new JsonError('too deep');
    const first = this.next();
    if (first === '{') return this.object(depth, outermost);
    if (first === '[') return this.list(depth);
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
    if (match === null) throw new JsonError(`no value at ${this.at}`);
    this.at += match[0].length;
    if (match[1] === undefined && match[2] === undefined) return BigInt(match[0]);
    const number = Number(match[0]);
    if (!Number.isFinite(number)) throw new JsonError('a number beyond float64');
    return number;
  }

  list(depth) {
    const items = [];
    this.expect('[');
    if (this.next() !== ']') {
      do items.push(this.value(depth + 1));
      while (this.goesOn(']'));
    }
    this.expect(']');
    return items;
  }

  object(depth, outermost) {
    const object = new Map();
    this.expect('{');
    if (this.next() !== '}') {
      do {
        if (this.next() !== '"') throw new JsonError(`no name at ${this.at}`);
        const name = this.string();
        if (object.has(name)) throw new JsonError(`the name ${name} twice`);
        this.expect(':');
        this.space();
        const begin = this.at;
        object.set(name, this.value(depth + 1));
        if (outermost && typeof object.get(name) === 'string') this.where.set(name, [begin + 1, this.at - 1]);
      } while (this.goesOn('}'));
    }
    this.expect('}');
    return object;
  }

  goesOn(end) {
    if (this.next() === ',') {
      this.at += 1;
      return true;
    }
    if (this.next() !== end) throw new JsonError(`neither , nor ${end} at ${this.at}`);
    return false;
  }

  string() {
    let text = '';
    this.at += 1;
    for (;;) {
      const letter = this.text[this.at];
      if (letter === undefined || letter < ' ') throw new JsonError('a string is not closed');
      this.at += 1;
      if (letter === '"') return text;
      text += letter === '\\' ? this.escape() : letter;
    }
  }

  escape() {
    const letter = this.text[this.at];
    this.at += 1;
    if (letter === 'u') {
      const digits = this.text.slice(this.at, this.at + 4);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new JsonError('a bad escape');
      this.at += 4;
      return String.fromCharCode(parseInt(digits, 16));
    }
    if (!(letter in ESCAPES)) throw new JsonError('a bad escape');
    return ESCAPES[letter];
  }
}
