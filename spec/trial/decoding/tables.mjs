// The graphs of the vectors, by their tables: README.md, "The vectors of `generate`". No onnxruntime is needed.

export class TableGraph {
  /** tables: codes, by_token, by_sum. positions: the length of the KV buffers. */
  constructor(tables, positions) {
    Object.assign(this, { tables, keys: new Float32Array(positions).fill(NaN), values: new Float32Array(positions).fill(NaN) });
  }

  /** Feed ids at the positions from `past` on; the logits of the last `rows` of them. */
  run(past, ids, rows) {
    const { codes, by_token, by_sum } = this.tables;
    if (past + ids.length > this.keys.length) throw new RangeError('the KV buffer is full');
    ids.forEach((id, i) => {
      this.keys[past + i] = codes[id];
      this.values[past + i] = 1 + ((past + i) % 35);
    });
    const logits = [];
    for (let i = ids.length - rows; i < ids.length; i++) {
      const row = by_sum[this.sum(past + i) % by_sum.length];
      if (row === undefined) throw new Error('a position was not written');
      logits.push(by_token[ids[i]].map((x, id) => x + row[id]));
    }
    return logits;
  }

  sum(position) {
    let sum = 0;
    for (let j = 0; j <= position; j++) sum += this.keys[j] * (this.values[j] + 2);
    return sum;
  }

  /** Positions from `length` on are not held any more: nothing may depend on them. */
  forget(length) {
    this.keys.fill(NaN, length);
    this.values.fill(NaN, length);
  }
}
