// The four rules that accept or reject a proposal: 04-speculation.md, section 7.

import { Options, divide, resampleOrSkip } from './options.mjs';
import { Distribution } from './sampling.mjs';

/** Everything was accepted. */
function all(proposal, token) {
  const { used } = proposal;
  return { accepted: proposal.tokens.length, token, isBonus: true, evaluated: used, acceptedDrafts: used };
}

/** Proposed tokens before `accepted` stand; the draft tokens from `start` to `end` were rejected. */
function rejected(accepted, token, start, end) {
  return { accepted, token, isBonus: false, evaluated: end, acceptedDrafts: start };
}

const atDecision = (decision, token) => rejected(decision.row, token, decision.draft, decision.draft + 1);

function bonus(proposal, p, random) {
  const { tail, tokens } = proposal;
  const last = p(tokens.length);
  return all(proposal, tail === null ? random.sample(last) : random.sampleAmong(last, tail.targets));
}

/** Token by token. p(row), q(draft token) give distributions; p is asked for the rows in ascending order. */
export function verifyToken({ map, root, proposal, p, q, random }) {
  for (const decision of proposal.decisions) {
    const options = new Options(decision, root, p(decision.row), q(decision.draft));
    if (random.bernoulli(options.ratio)) continue;
    return atDecision(decision, resampleOrSkip(options, 1, random, map));
  }
  return bonus(proposal, p, random);
}

/** All together. */
export function verifyBlock({ map, root, proposal, p, q, random }) {
  const { decisions } = proposal;
  const seen = [];
  const reach = [1];
  for (const decision of decisions) {
    const options = new Options(decision, root, p(decision.row), q(decision.draft));
    seen.push(options);
    reach.push(Math.min(1, reach.at(-1) * options.ratio));
    if (reach.at(-1) === 0) break;
  }
  if (random.bernoulli(reach.at(-1))) return bonus(proposal, p, random);
  for (let i = seen.length - 1; i >= 0; i--) {
    const token = resampleOrSkip(seen[i], reach[i], random, map);
    if (token !== null) return atDecision(decisions[i], token);
  }
  throw new Error('no decision ended the round');
}

/** Each proposed token against a draw of the target. */
export function verifyMatch({ proposal, p, random }) {
  const { tokens, ends } = proposal;
  for (let i = 0; i < tokens.length; i++) {
    const token = random.sample(p(i));
    if (token !== tokens[i]) return rejected(i, token, ends[i - 1] ?? 0, ends[i]);
  }
  return all(proposal, random.sample(p(tokens.length)));
}

/** q' of the paper: direct pairs, and the proposed token as the product of its draft tokens. */
export function paperDistribution(map, proposed, rows, targetSize) {
  const weights = new Array(targetSize).fill(0);
  map.direct.forEach((target, d) => {
    if (target >= 0) weights[target] += rows[0].of(d);
  });
  const spelling = map.spellings[proposed];
  if (spelling.length > 1) {
    const product = spelling.reduce((a, d, i) => a * rows[i].of(d), 1);
    weights[proposed] = product;
    const first = map.direct[spelling[0]];
    if (first >= 0) weights[first] = Math.max(0, rows[0].of(spelling[0]) - product);
  }
  return weights;
}

export function verifyPaper({ map, proposal, p, q, random }) {
  const { tokens, starts, ends } = proposal;
  for (let i = 0; i < tokens.length; i++) {
    const law = p(i);
    const rows = [];
    for (let j = starts[i]; j < ends[i]; j++) rows.push(q(j));
    const other = paperDistribution(map, tokens[i], rows, law.weights.length);
    if (random.bernoulli(divide(law.of(tokens[i]), other[tokens[i]]))) continue;
    const residual = other.map((x, t) => Math.max(0, law.of(t) - x));
    const rest = residual.some((x) => x > 0) ? new Distribution(residual) : law;
    return rejected(i, random.categorical(rest.weights), ends[i - 1] ?? 0, ends[i]);
  }
  return all(proposal, random.sample(p(tokens.length)));
}

/** The draft tokens of the drafter's context after a round: how many of the draft go, and what comes. */
export function draftChange(map, proposal, draft, accepted, emitted) {
  const { tokens, starts, ends } = proposal;
  let whole = accepted; // an expansion that is accepted in part is spelled token by token
  while (whole > 0 && whole < tokens.length && starts[whole] === starts[whole - 1]) whole -= 1;
  if (proposal.used === 0) whole = 0; // a copy uses no draft tokens: every token is spelled
  const kept = whole > 0 ? ends[whole - 1] : 0;
  return { rewind: draft.length - kept, append: emitted.slice(whole).flatMap((t) => map.spellings[t]) };
}
