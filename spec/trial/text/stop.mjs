// Where an output ends: 05-stopping.md.

import { TextStream } from './utf8.mjs';

const startsAt = (bytes, part, at) => part.every((byte, i) => bytes[at + i] === byte);

export class Output {
  /** bytesOf: id -> bytes; stop: texts; room: tokens until the context is full. */
  constructor({ bytesOf, eosIds, stop, maxNewTokens, room }) {
    if (stop.some((text) => text === '')) throw new RangeError('a stop string is empty');
    Object.assign(this, { bytesOf, eosIds: new Set(eosIds), maxNewTokens, room });
    this.stop = stop.map((text) => ({ text, bytes: [...Buffer.from(text, 'utf8')] }));
    this.bytes = [];
    this.given = 0; // bytes that went to the stream of text
    this.stream = new TextStream();
    this.count = 0;
    this.reason = null;
    this.stopString = null;
    this.stopStart = null;
  }

  /** Tokens of a round -> the tokens that are output and the piece of text that became certain. */
  round(tokens) {
    const emitted = [];
    for (const token of tokens) {
      if (this.reason !== null) break;
      emitted.push(token);
      this.take(token);
    }
    return { emitted, piece: this.piece() };
  }

  take(token) {
    this.count += 1;
    if (this.eosIds.has(token)) {
      this.reason = 'eos';
      return;
    }
    for (const byte of this.bytesOf(token)) {
      if (this.reason !== null) return;
      this.bytes.push(byte);
      this.complete();
    }
    if (this.reason !== null) return;
    if (this.count >= this.maxNewTokens) this.reason = 'length';
    else if (this.count >= this.room) this.reason = 'context';
  }

  /** Is a stop string complete with the last byte? Of several, the longest. */
  complete() {
    for (const { text, bytes } of this.stop) {
      const start = this.bytes.length - bytes.length;
      if (start < 0 || !startsAt(this.bytes, bytes, start)) continue;
      if (this.stopStart !== null && start >= this.stopStart) continue;
      this.reason = 'stop';
      this.stopString = text;
      this.stopStart = start;
    }
  }

  piece() {
    const end = this.reason === 'stop' ? this.stopStart : this.bytes.length - this.heldBack();
    const text = this.stream.push(this.bytes.slice(this.given, end));
    this.given = end;
    return this.reason === null ? text : text + this.stream.rest();
  }

  /** The length of the longest suffix that may be the beginning of a stop string. */
  heldBack() {
    if (this.reason !== null) return 0;
    let longest = 0;
    for (const { bytes } of this.stop) {
      for (let n = Math.min(bytes.length - 1, this.bytes.length); n > longest; n--) {
        if (startsAt(this.bytes, bytes.slice(0, n), this.bytes.length - n)) longest = n;
      }
    }
    return longest;
  }
}
