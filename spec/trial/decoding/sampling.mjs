// From logits to a distribution: 04-speculation.md, section 2.

export const SETTINGS = { temperature: 0, top_k: 0, top_p: 1, min_p: 0, repetition_penalty: 1 };

export class Distribution {
  /** weights: in proportion to the probabilities; certain: the only id at temperature 0, else null. */
  constructor(weights, certain = null) {
    this.weights = weights;
    this.certain = certain;
    this.total = 0;
    for (const w of weights) this.total += w;
  }

  largest() {
    return Math.max(...this.weights) / this.total;
  }

  of(id) {
    return this.weights[id] / this.total;
  }

  ofAll(ids) {
    let sum = 0;
    for (const id of ids) sum += this.weights[id];
    return sum / this.total;
  }

  /** The same weights, 0 at some ids. */
  without(ids) {
    const weights = Array.from(this.weights);
    for (const id of ids) weights[id] = 0;
    return new Distribution(weights);
  }
}

export function largest(logits) {
  let best = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
  return best;
}

/** No distribution can be made of a row with a NaN, or whose largest logit is infinite. */
export class NoDistribution extends Error {}

function check(row) {
  if (row.some((x) => Number.isNaN(x)) || !Number.isFinite(row[largest(row)])) throw new NoDistribution('logits');
}

function certain(logits) {
  const id = largest(logits);
  return new Distribution(Array.from(logits, (_, i) => (i === id ? 1 : 0)), id);
}

/** exp((logit - largest) / T): the largest weight is 1. */
function heated(logits, temperature) {
  const top = logits[largest(logits)];
  return Array.from(logits, (x) => Math.exp((x - top) / temperature));
}

function penalised(logits, penalty, context) {
  const row = Array.from(logits);
  if (penalty === 1) return row;
  for (const id of new Set(context)) row[id] = row[id] > 0 ? row[id] / penalty : row[id] * penalty;
  return row;
}

/** Ids of positive weight by descending weight, ties by ascending id. */
function ranked(w) {
  return [...w.keys()].filter((i) => w[i] > 0).sort((a, b) => w[b] - w[a] || a - b);
}

function keepTopK(w, k) {
  for (const id of ranked(w).slice(k)) w[id] = 0;
}

function keepTopP(w, topP) {
  const ids = ranked(w);
  let total = 0;
  for (const id of ids) total += w[id];
  let before = 0;
  ids.forEach((id, place) => {
    const weight = w[id];
    if (place > 0 && !(before < topP * total)) w[id] = 0;
    before += weight;
  });
}

/** The target's distribution. context: all tokens before the row, prompt included. */
export function targetDistribution(logits, settings, context) {
  const s = { ...SETTINGS, ...settings };
  const row = penalised(logits, s.repetition_penalty, context);
  check(row);
  if (s.temperature === 0) return certain(row);
  const w = heated(row, s.temperature);
  if (s.top_k > 0) keepTopK(w, s.top_k);
  if (s.top_p < 1) keepTopP(w, s.top_p);
  if (s.min_p > 0) for (let i = 0; i < w.length; i++) if (w[i] < s.min_p) w[i] = 0;
  return new Distribution(w);
}

/** The drafter's distribution: the temperature only, and weight 0 for banned ids. */
export function drafterDistribution(logits, temperature, banned) {
  const row = Array.from(logits);
  check(row);
  for (const id of banned) row[id] = -Infinity;
  check(row);
  return temperature === 0 ? certain(row) : new Distribution(heated(row, temperature));
}

/** ln p(token); at temperature 0 of the softmax after the penalty. */
export function logProbability(logits, settings, context, token) {
  const s = { ...SETTINGS, ...settings };
  const warm = s.temperature > 0 ? s : { repetition_penalty: s.repetition_penalty, temperature: 1 };
  return Math.log(targetDistribution(logits, warm, context).of(token));
}
