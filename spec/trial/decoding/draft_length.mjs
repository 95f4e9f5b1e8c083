// What a round proposes, and how many tokens: 07-draft-length.md.

export const LENGTHS = {
  longest: 12, shortest_match: 2, longest_match: 6, confidences: [0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97],
  chances: [0.15, 0.25, 0.4, 0.5, 0.65, 0.8, 0.9, 0.96], seen_decay: 0.98, plain_decay: 0.995, decay: 0.97, prior_rounds: 5,
  prior_acceptance: 0.6, copy_acceptance: 0.5, probe: 1, first_share: 0.0125, last_share: 0.0025, read: 0.2,
  repaid: 32, most_unread: 64,
};
export const BLOCK = { gain: 0.03, extra_seconds: 0.0002, extra_seconds_per_token: 6e-9, usual_draft: 4 };

export class Costs {
  /** costs: the object of the manifest. */
  constructor(costs) {
    Object.assign(this, costs);
  }

  pass(n) {
    const { target } = this;
    if (n <= target.length) return target[n - 1];
    const slope = target.length > 1 ? Math.max(0, (target.at(-1) - target[0]) / (target.length - 1)) : 0;
    return target.at(-1) + slope * (n - target.length);
  }

  round(k) {
    return k === 0 ? this.pass(1) : this.pass(k + 1) + k * this.draft + this.host;
  }
}

/** The verification that `auto` takes: 04-speculation.md, section 7. */
export function verification(costs, width) {
  const seconds = new Costs(costs).round(BLOCK.usual_draft);
  return BLOCK.gain * seconds > BLOCK.extra_seconds + BLOCK.extra_seconds_per_token * width ? 'block' : 'token';
}

const zeros = (n) => new Array(n).fill(0);

const weight = (trials) => LENGTHS.prior_rounds / (1 + trials / LENGTHS.prior_rounds);

function share(assumed, success, trials) {
  return (success + weight(trials) * assumed) / (trials + weight(trials));
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** The class of a confidence. */
export const classOf = (confidence) => LENGTHS.confidences.filter((least) => least <= confidence).length;

function count(trials, successes, i, success) {
  trials[i] = trials[i] * LENGTHS.decay + 1;
  successes[i] = successes[i] * LENGTHS.decay + (success ? 1 : 0);
}

export function newState() {
  const matches = LENGTHS.longest_match + 1 - LENGTHS.shortest_match;
  return {
    seen: zeros(LENGTHS.chances.length), evaluated: zeros(LENGTHS.chances.length), accepted: zeros(LENGTHS.chances.length),
    drafts: 0, targets: 0, compared: zeros(matches), agreed: zeros(matches), idle: 0, unread: 0, written: 0, share: LENGTHS.first_share,
  };
}

export class DraftLength {
  /** drafts, copies: what is possible. */
  constructor(costs, { drafts = true, copies = true, state = newState() } = {}) {
    Object.assign(this, { costs: new Costs(costs), drafts, copies, state });
  }

  beginText(length, shared) {
    this.state.unread = Math.min(length, this.state.unread + length - shared);
    this.state.written = 0;
    this.state.share = Math.min(2 * this.state.share, LENGTHS.first_share);
  }

  /** Of a draft token by its class. */
  chances() {
    const scale = Math.min(1, this.costs.acceptance / LENGTHS.prior_acceptance);
    return LENGTHS.chances.map((chance, i) => share(scale * chance, this.state.accepted[i], this.state.evaluated[i]));
  }

  /** Of a match of each length. */
  copyShares() {
    let assumed = LENGTHS.copy_acceptance;
    return this.state.agreed.map((agreed, i) => {
      assumed = share(assumed, agreed, this.state.compared[i]);
      return assumed;
    });
  }

  ratio() {
    const prior = LENGTHS.prior_rounds;
    return Math.min(1.5, (this.state.targets + prior) / (this.state.drafts + prior));
  }

  /** The options without a drafter, in order: {source, count, speed}. */
  options(match) {
    const options = [{ source: 'none', count: 0, speed: 1 / this.costs.pass(1) }];
    const add = (source, count, tokens, seconds) => options.push({ source, count, speed: tokens / seconds });
    if (this.copies && match > 0) {
      const c = this.copyShares();
      let product = 1;
      let tokens = 1;
      for (let k = 1; k <= LENGTHS.longest; k++) {
        product *= c[this.place(match + k - 1)];
        tokens += product;
        add('copy', k, tokens, this.costs.pass(k + 1) + this.costs.host);
      }
    }
    return options;
  }

  /** The speed of a draft, and what its tokens must reach; other: speed of the best option without a drafter. */
  drafting(other) {
    const { seen } = this.state;
    const chances = this.chances();
    const ratio = this.ratio();
    const all = sum(seen);
    const often = seen.map((n) => (n + weight(all) / chances.length) / (all + weight(all)));
    const gain = ratio * sum(often.map((f, i) => f * chances[i]));
    const more = (k) => this.costs.round(k + 1) - this.costs.round(k);
    const verified = (k) => more(k - 1) - this.costs.draft;
    let tokens = 1 + gain;
    let seconds = this.costs.round(1) + this.reading() / LENGTHS.repaid;
    const first = Math.max(other, tokens / seconds) * verified(1);
    chances.forEach((chance, i) => {
      if (ratio * chance >= first) return;
      tokens -= often[i] * ratio * chance;
      seconds -= often[i] * verified(1);
    });
    const second = Math.max(other, tokens / seconds) * more(1);
    chances.forEach((chance, i) => {
      if (chance * gain < second) return;
      tokens += often[i] * chance * gain;
      seconds += often[i] * more(1);
    });
    const speed = tokens / seconds;
    const worth = Array.from({ length: LENGTHS.longest }, (_, i) => (speed * verified(i + 1)) / ratio);
    const least = Array.from({ length: LENGTHS.longest - 1 }, (_, i) => (speed * more(i + 1)) / Math.max(gain, 1e-9));
    return { speed, chances, worth, least };
  }

  /** Where the counts of a match length are. */
  place(match) {
    return Math.min(match, LENGTHS.longest_match) - LENGTHS.shortest_match;
  }

  due(speed) {
    const { share, idle } = this.state;
    return share * idle * this.costs.pass(1) >= this.costs.round(LENGTHS.probe) + this.reading() - 1 / speed;
  }

  /** Seconds that the drafter needs for what it did not read. */
  reading() {
    return Math.min(this.state.unread, LENGTHS.most_unread) * LENGTHS.read * this.costs.draft;
  }

  /** {source, count, fresh}, and of a draft {chances, worth, least} */
  plan(match) {
    const { source, count, speed } = this.options(match).reduce((a, b) => (b.speed > a.speed ? b : a));
    if (!this.drafts) return { source, count, fresh: false };
    const fresh = this.state.unread > LENGTHS.most_unread;
    const { chances, worth, least, ...draft } = this.drafting(speed);
    const paid = this.state.written * this.costs.pass(1) >= this.reading();
    if (paid && draft.speed > speed) {
      Object.assign(this.state, { idle: 0, share: LENGTHS.first_share });
      return { source: 'draft', count: LENGTHS.longest, fresh, chances, worth, least };
    }
    if (paid && this.due(speed)) {
      this.state.idle = 0;
      this.state.share = Math.max(this.state.share / 2, LENGTHS.last_share);
      return { source: 'draft', count: LENGTHS.probe, fresh, chances, worth: [], least: [] };
    }
    this.state.idle += 1;
    return { source, count, fresh: false };
  }

  record({ match, classes, evaluated, accepted, emitted, agreed }) {
    const { state } = this;
    const { longest, decay } = LENGTHS;
    state.unread = classes.length > 0 ? 0 : state.unread + emitted;
    state.written += emitted;
    if (classes.length === 0) {
      for (const fading of ['seen', 'evaluated', 'accepted']) {
        state[fading] = state[fading].map((n) => n * LENGTHS.plain_decay);
      }
    } else {
      classes.forEach((place) => {
        state.seen = state.seen.map((n) => n * LENGTHS.seen_decay);
        state.seen[place] += 1;
      });
      classes.slice(0, Math.min(evaluated, accepted + 1)).forEach((place, j) => {
        state.evaluated = state.evaluated.map((n) => n * LENGTHS.seen_decay);
        state.accepted = state.accepted.map((n) => n * LENGTHS.seen_decay);
        state.evaluated[place] += 1;
        state.accepted[place] += j < accepted ? 1 : 0;
      });
      state.drafts = state.drafts * decay + accepted;
      state.targets = state.targets * decay + (emitted - 1);
    }
    if (match === 0) return;
    for (let j = 0; j < Math.min(emitted, agreed + 1, longest); j++) {
      count(state.compared, state.agreed, this.place(match + j), j < agreed);
    }
  }
}

const reach = (plan, classes) => classes.reduce((chance, place) => chance * plan.chances[place], 1);

/** Whether the last of the tokens of these classes is proposed. */
export function proposes(plan, classes) {
  return !plan.worth?.length || reach(plan, classes) >= plan.worth[classes.length - 1];
}

/** Whether a draft goes on after tokens of these classes. */
export function goesOn(plan, classes) {
  if (classes.length >= plan.count) return false;
  return !plan.chances || reach(plan, classes) >= plan.least[classes.length - 1];
}

/** A fixed length: k draft tokens in every round; in mode lookup k copied tokens. */
export class FixedLength {
  constructor(count, mode) {
    Object.assign(this, { count, copies: mode === 'lookup' });
  }

  plan() {
    return { source: this.copies ? 'copy' : 'draft', count: this.count, fresh: false };
  }

  record() {}
}
