// What the models read, and which positions they keep: 04-speculation.md, section 3; 03-bundle.md, "The graph".

import { goesOn, proposes } from './draft_length.mjs';

function commonPrefix(a, b) {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n += 1;
  return n;
}

/** A model and the ids whose KV it holds. */
export class Reader {
  constructor(graph) {
    this.graph = graph;
    this.held = [];
  }

  forget(length) {
    if (length >= this.held.length) return;
    this.held.length = length;
    this.graph.forget(length);
  }

  /** Feed the ids after those that are held; the logits of the last `rows` positions. */
  async feed(ids, rows) {
    const logits = await this.graph.run(this.held.length, ids, rows);
    this.held.push(...ids);
    return logits;
  }
}

export class Target extends Reader {
  /** tokens: the text and the proposed tokens; rows: how many of the last positions get logits. */
  async read(tokens, rows) {
    this.forget(Math.min(commonPrefix(this.held, tokens), tokens.length - rows));
    const past = this.held.length;
    const logits = await this.feed(tokens.slice(past), rows);
    this.last = [past, tokens.length - past];
    return logits;
  }

  /** [past, tokens fed] of the last pass. */
  passes() {
    return this.last;
  }
}

export class Drafter extends Reader {
  constructor(graph, maxLength, bos) {
    super(graph);
    Object.assign(this, { maxLength, bos });
  }

  /** The first position of the context that is read. */
  window(n) {
    const room = this.maxLength - Math.min(48, Math.floor(this.maxLength / 2)) - this.bos.length;
    if (n <= room) return 0;
    const half = Math.max(1, Math.floor(room / 2));
    return half * Math.ceil((n - room) / half);
  }

  /** Draw at most `count` tokens; law: logits -> distribution. passes: the past, then the tokens of each pass. */
  async draw(context, plan, law, sure, random) {
    const expected = [...this.bos, ...context.slice(this.window(context.length))];
    if (expected.length === 0) return { draft: [], laws: [], passes: [], classes: [] };
    this.forget(Math.min(commonPrefix(this.held, expected), expected.length - 1));
    const passes = [this.held.length];
    const draft = [];
    const laws = [];
    const classes = [];
    let ids = expected.slice(this.held.length);
    const limit = Math.min(plan.count, Math.floor(this.maxLength / 2));
    while (draft.length < limit) {
      passes.push(ids.length);
      const [logits] = await this.feed(ids, 1);
      classes.push(sure(logits));
      if (!proposes(plan, classes)) break;
      laws.push(law(logits));
      draft.push(random.sample(laws.at(-1)));
      if (!goesOn(plan, classes)) break;
      ids = [draft.at(-1)];
    }
    return { draft, laws, passes, classes };
  }
}
