// Classes of code points and the programs that find matches: 02-tokenizer.md, "Programs".

export const OPS = { MATCH: 0, CLASS: 1, SPLIT: 2, JUMP: 3, NEXT_IS: 4, NEXT_IS_NOT: 5, BEFORE_IS: 6, BEFORE_IS_NOT: 7 };

export class Classes {
  /** ranges: the first code point of each; masks: BigInt, a bit for each class. */
  constructor(ranges, masks) {
    Object.assign(this, { ranges, masks });
  }

  has(codePoint, cls) {
    let low = 0;
    let high = this.ranges.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.ranges[middle] <= codePoint) low = middle;
      else high = middle - 1;
    }
    return ((this.masks[low] >> BigInt(cls)) & 1n) === 1n;
  }
}

/** [start, end] of each match. program: [op, a, b] of each instruction; text: code points. */
export function matches(program, classes, text) {
  const seen = new Set();
  const isIn = (at, cls) => at >= 0 && at < text.length && classes.has(text[at], cls);

  /** Where the instruction leads: [pc, at], or null for failure. SPLIT pushes the other way. */
  function step(pc, at, waiting) {
    const [op, a, b] = program[pc];
    const goesOn = (yes) => (yes ? [pc + 1, at] : null);
    if (op === OPS.CLASS) return isIn(at, a) ? [pc + 1, at + 1] : null;
    if (op === OPS.JUMP) return [a, at];
    if (op === OPS.NEXT_IS) return goesOn(isIn(at, a));
    if (op === OPS.NEXT_IS_NOT) return goesOn(!isIn(at, a));
    if (op === OPS.BEFORE_IS) return goesOn(isIn(at - 1, a));
    if (op === OPS.BEFORE_IS_NOT) return goesOn(!isIn(at - 1, a));
    const key = pc * (text.length + 1) + at;
    if (seen.has(key)) return null;
    seen.add(key);
    waiting.push([b, at]);
    return [a, at];
  }

  function attempt(start) {
    const waiting = [];
    let place = [0, start];
    while (place !== null) {
      const [pc, at] = place;
      if (program[pc][0] === OPS.MATCH) return at;
      place = step(pc, at, waiting) ?? waiting.pop() ?? null;
    }
    return -1;
  }

  const found = [];
  let start = 0;
  while (start < text.length) {
    const end = attempt(start);
    if (end > start) found.push([start, end]);
    start = end > start ? end : start + 1;
  }
  return found;
}
