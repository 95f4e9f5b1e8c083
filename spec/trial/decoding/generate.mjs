// Rounds of speculation over two models: 04-speculation.md, sections 3 and 8.

import { LENGTHS, classOf } from './draft_length.mjs';
import { find } from './lookup.mjs';
import { Drafter, Target } from './reading.mjs';
import { RandomSource, SplitMix64 } from './random.mjs';
import { drafterDistribution, logProbability, targetDistribution } from './sampling.mjs';
import { longestFirst, walk } from './translate.mjs';
import { draftChange, verifyBlock, verifyMatch, verifyPaper, verifyToken } from './verify.mjs';
import { trie } from '../vocab/vocab_map.mjs';

export const MOST_PROPOSED = 64;
const WALKS = new Set(['trie', 'direct']);
const LEARNS = new Set(['trie', 'match', 'paper']);

/** A copy as a proposal: it uses no draft tokens. */
function copied(tokens) {
  const none = tokens.map(() => 0);
  return { tokens, starts: none, ends: none, decisions: null, tail: null, used: 0 };
}

const NOTHING = { draft: [], laws: [], passes: [], classes: [] };
const WITHOUT_DRAFTER = new Set(['plain', 'lookup']);

function agreement(emitted, copy) {
  const differs = emitted.findIndex((token, i) => token !== copy[i]);
  return differs < 0 ? emitted.length : differs;
}

export class Session {
  /** target, drafter: a graph and the positions that may be used; bos: draft ids of the start; cache: of n-grams. */
  constructor({ map, target, targetLength, drafter, drafterLength, bos, cache }) {
    Object.assign(this, { map, cache, maxLength: targetLength });
    this.target = new Target(target);
    this.drafter = new Drafter(drafter, drafterLength, bos);
  }

  /**
   * settings: mode, verification, sampling, seed, length (a DraftLength or a FixedLength), maxNewTokens, eosIds.
   * Returns tokens, the number of uniforms, the rounds, and the drafter's context.
   */
  async generate(prompt, context, settings) {
    const generator = new SplitMix64(settings.seed);
    const text = {
      ...settings, tokens: [...prompt], context: [...context], random: new RandomSource(generator), emitted: 0,
      room: this.maxLength - prompt.length + 1, ended: false,
    };
    const rounds = [];
    while (!text.ended) rounds.push(await this.round(text));
    return { tokens: text.tokens.slice(prompt.length), uniforms: generator.taken, rounds, context: text.context };
  }

  async round(text) {
    const left = text.maxNewTokens - text.emitted;
    const most = Math.min(MOST_PROPOSED, this.maxLength - text.tokens.length, left - 1);
    const found = most > 0 && text.length.copies ? find(text.tokens) : { copy: [], match: 0 };
    const plan = most > 0 && text.mode !== 'plain' ? text.length.plan(found.match) : { source: 'none', count: 0 };
    if (plan.fresh) text.context.splice(0, text.context.length - LENGTHS.most_unread);
    const drafted = plan.source === 'draft' ? await this.draft(text, plan) : NOTHING;
    const root = trie(this.map, text.mode === 'direct' ? [] : this.cache.entries.keys());
    const proposal = plan.source === 'draft' ? this.propose(text, root, drafted.draft, most)
      : copied(plan.source === 'copy' ? found.copy.slice(0, Math.min(plan.count, most)) : []);
    const rows = await this.target.read([...text.tokens, ...proposal.tokens], proposal.tokens.length + 1);
    const before = (row) => [...text.tokens, ...proposal.tokens.slice(0, row)];
    const p = (row) => targetDistribution(rows[row], text.sampling, before(row));
    const rule = plan.source === 'draft' ? this.rule(text) : verifyMatch;
    const verdict = rule({ map: this.map, root, proposal, p, q: (i) => drafted.laws[i], random: text.random });
    const accepted = proposal.tokens.slice(0, verdict.accepted);
    const emitted = this.cut([...accepted, verdict.token], text, left);
    const round = {
      draft: drafted.draft, proposed: proposal.tokens, accepted: Math.min(verdict.accepted, emitted.length), emitted,
      evaluated: verdict.evaluated, accepted_drafts: verdict.acceptedDrafts,
      target_passes: this.target.passes(), draft_passes: drafted.passes,
      logprobs: emitted.map((token, i) => logProbability(rows[i], text.sampling, before(i), token)),
    };
    if (!WITHOUT_DRAFTER.has(text.mode)) {
      const change = draftChange(this.map, proposal, drafted.draft, verdict.accepted, [...accepted, verdict.token]);
      const kept = drafted.draft.length - change.rewind;
      text.context.push(...drafted.draft.slice(0, kept), ...change.append);
    }
    text.tokens.push(...emitted);
    text.emitted += emitted.length;
    this.target.forget(text.tokens.length - 1);
    round.learned = LEARNS.has(text.mode) ? this.cache.learn(emitted, round.accepted) : 0;
    const counts = {
      match: found.match, classes: drafted.classes, evaluated: verdict.evaluated, accepted: verdict.acceptedDrafts,
      emitted: emitted.length, agreed: agreement(emitted, found.copy),
    };
    text.length.record(counts);
    const asked = most > 0 ? [plan.source, plan.count, plan.fresh] : null;
    return { ...round, plan: asked, match: counts.match, agreed: counts.agreed };
  }

  async draft(text, plan) {
    const banned = text.mode === 'direct' ? this.map.bannedDirect : this.map.bannedTrie;
    const temperature = text.sampling.temperature ?? 0;
    const law = (logits) => drafterDistribution(logits, temperature, banned);
    const sure = (logits) => classOf(drafterDistribution(logits, temperature || 1, banned).largest());
    return this.drafter.draw(text.context, plan, law, sure, text.random);
  }

  propose(text, root, draft, most) {
    const warm = (text.sampling.temperature ?? 0) > 0;
    const expand = text.mode !== 'direct' && !(warm && text.mode === 'paper');
    return (warm && WALKS.has(text.mode) ? walk : longestFirst)(this.map, root, draft, most, expand);
  }

  rule(text) {
    if ((text.sampling.temperature ?? 0) === 0) return verifyMatch;
    if (text.mode === 'trie') return text.verification === 'block' ? verifyBlock : verifyToken;
    return { direct: verifyToken, paper: verifyPaper }[text.mode] ?? verifyMatch;
  }

  /** The tokens up to the first that ends the output. */
  cut(tokens, text, left) {
    const ends = (token, i) => text.eosIds.includes(token) || i + 1 >= left || text.emitted + i + 1 >= text.room;
    const last = tokens.findIndex(ends);
    text.ended = last >= 0;
    return last < 0 ? tokens : tokens.slice(0, last + 1);
  }
}
