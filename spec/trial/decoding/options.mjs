// P and Q of a decision, and the step after a rejection: 04-speculation.md, sections 5 and 6.

import { BEGIN, END, EXPAND } from './translate.mjs';

export const LEAST_DIVISOR = 1e-300;

export function divide(a, b) {
  return a / (b === 0 ? LEAST_DIVISOR : b);
}

/** Options of a decision: P, Q, how each becomes a token, and which one is proposed (-1: none). */
export class Options {
  /** p: the target's distribution of the decision's row; q: the drafter's at its draft token. */
  constructor(decision, root, p, q) {
    Object.assign(this, { decision, root, p, q, P: [], Q: [], draws: [], proposed: -1 });
    if (decision.step === EXPAND) this.expansion();
    else if (decision.step === BEGIN) this.beginning();
    else this.inside();
    this.ratio = this.proposed < 0 ? 0 : divide(this.P[this.proposed], this.Q[this.proposed]);
  }

  add(P, Q, draw) {
    this.P.push(P);
    this.Q.push(Q);
    this.draws.push(draw);
  }

  expansion() {
    const { token } = this.decision;
    this.add(this.p.of(token), 1, () => token);
    this.add(1 - this.p.of(token), 0, (random) => random.sample(this.p.without([token])));
    this.proposed = 0;
  }

  beginning() {
    const { to, excluded } = this.decision;
    const ids = this.root.draftIds;
    const weights = ids.map((d) => (excluded !== null && excluded.children.has(d) ? 0 : this.q.weights[d]));
    const sum = weights.reduce((a, b) => a + b, 0);
    this.ids = ids;
    ids.forEach((d, i) => {
      const child = this.root.children.get(d);
      this.add(this.p.ofAll(child.targets), divide(weights[i], sum), (random) => random.sampleAmong(this.p, child.targets));
      if (child === to) this.proposed = i;
    });
    const rest = 1 - this.p.ofAll(this.root.targets);
    this.add(Math.max(0, rest), 0, (random) => random.sample(this.p.without(this.root.targets)));
  }

  inside() {
    const { at, to, step } = this.decision;
    const whole = this.p.ofAll(at.targets);
    let sum = 0;
    for (const d of at.draftIds) {
      const child = at.children.get(d);
      if (child === to) this.proposed = this.P.length;
      this.add(divide(this.p.ofAll(child.targets), whole), this.q.of(d), (random) => random.sampleAmong(this.p, child.targets));
      sum += this.q.of(d);
    }
    if (at.terminal === null) return;
    if (step === END) this.proposed = this.P.length;
    this.add(divide(this.p.of(at.terminal), whole), Math.max(0, 1 - sum), () => at.terminal);
  }

  /** The option that a target token belongs to, at BEGIN. */
  optionOf(token, map) {
    const active = this.root.targets.includes(token);
    return active ? this.ids.indexOf(map.spellings[token][0]) : this.P.length - 1;
  }
}

/** A target token, or null: 0 < reach <= 1. */
export function resampleOrSkip(options, reach, random, map) {
  if (options.decision.step === BEGIN) {
    if (random.bernoulli(1 - reach)) return null;
    const share = (token) => {
      const o = options.optionOf(token, map);
      return o === options.P.length - 1 ? 1 : 1 - divide(options.Q[o], reach * options.P[o]);
    };
    const token = random.rejectionSample(options.p, share);
    if (token !== null) return token;
  }
  let residual = options.P.map((P, o) => Math.max(0, reach * P - options.Q[o]));
  let sum = residual.reduce((a, b) => a + b, 0);
  if (sum === 0 && reach === 1) {
    residual = options.P;
    sum = 1;
  }
  if (!random.bernoulli(sum / (sum + (1 - reach)))) return null;
  return options.draws[random.categorical(residual)](random);
}

