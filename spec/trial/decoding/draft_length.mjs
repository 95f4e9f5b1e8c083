// What a round proposes, and how many tokens: 07-draft-length.md.

export const LENGTHS = {
  longest: 12, shortest_match: 2, longest_match: 6, decay: 0.97, prior_rounds: 5, prior_acceptance: 0.6, copy_acceptance: 0.5,
  text_rounds: 20, probe: 1, first_share: 0.0125, last_share: 0.0025, margin: 0.05, read: 0.2, repaid: 32, most_unread: 64,
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

/** A share for each pair of counts; the assumption for one is the share before it. */
function shares(assumed, successes, trials) {
  return successes.map((success, i) => {
    const weight = LENGTHS.prior_rounds / (1 + trials[i] / LENGTHS.prior_rounds);
    assumed = (success + weight * assumed) / (trials[i] + weight);
    return assumed;
  });
}

function count(trials, successes, i, success) {
  trials[i] = trials[i] * LENGTHS.decay + 1;
  successes[i] = successes[i] * LENGTHS.decay + (success ? 1 : 0);
}

export function newState() {
  const matches = LENGTHS.longest_match + 1 - LENGTHS.shortest_match;
  return {
    evaluated: zeros(LENGTHS.longest), accepted: zeros(LENGTHS.longest), drafts: 0, targets: 0, compared: zeros(matches),
    agreed: zeros(matches), idle: 0, unread: 0, share: LENGTHS.first_share,
  };
}

export class DraftLength {
  /** drafts, copies: what is possible. */
  constructor(costs, { drafts = true, copies = true, state = newState() } = {}) {
    Object.assign(this, { costs: new Costs(costs), drafts, copies, state });
  }

  beginText(length, shared) {
    const { evaluated, accepted } = this.state;
    this.state.unread = Math.min(length, this.state.unread + length - shared);
    evaluated.forEach((n, j) => {
      if (n <= LENGTHS.text_rounds) return;
      accepted[j] = Math.min(LENGTHS.text_rounds, (accepted[j] * LENGTHS.text_rounds) / n);
      evaluated[j] = LENGTHS.text_rounds;
    });
    this.state.share = Math.min(2 * this.state.share, LENGTHS.first_share);
  }

  depthShares() {
    return shares(this.costs.acceptance, this.state.accepted, this.state.evaluated);
  }

  ratio() {
    const prior = LENGTHS.prior_rounds;
    return Math.min(1.5, (this.state.targets + prior) / (this.state.drafts + prior));
  }

  /** The options in order: {source, count, speed}. */
  options(match) {
    const options = [{ source: 'none', count: 0, speed: 1 / this.costs.pass(1) }];
    const read = this.reading() / LENGTHS.repaid;
    const add = (source, count, tokens, seconds) => options.push({ source, count, speed: tokens / seconds });
    if (this.drafts) {
      const a = this.depthShares();
      let product = 1;
      let expected = 0;
      for (let k = 1; k <= LENGTHS.longest; k++) {
        product *= a[k - 1];
        expected += product;
        add('draft', k, 1 + this.ratio() * expected, this.costs.round(k) + read);
      }
    }
    if (this.copies && match > 0) {
      const c = shares(LENGTHS.copy_acceptance, this.state.agreed, this.state.compared);
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

  /** {source, count, fresh} */
  plan(match) {
    const fastest = (options) => options.reduce((a, b) => (b.speed > a.speed ? b : a));
    const options = this.options(match);
    const { source, count, speed } = fastest(options.filter((option) => option.source !== 'draft'));
    if (!this.drafts) return { source, count, fresh: false };
    const fresh = this.state.unread > LENGTHS.most_unread;
    const draft = fastest(options.filter((option) => option.source === 'draft'));
    if (draft.speed > (1 + LENGTHS.margin) * speed) {
      Object.assign(this.state, { idle: 0, share: LENGTHS.first_share });
      return { source: 'draft', count: draft.count, fresh };
    }
    if (this.due(speed)) {
      this.state.idle = 0;
      this.state.share = Math.max(this.state.share / 2, LENGTHS.last_share);
      return { source: 'draft', count: LENGTHS.probe, fresh };
    }
    this.state.idle += 1;
    return { source, count, fresh: false };
  }

  record({ match, drafted, evaluated, accepted, emitted, agreed }) {
    const { state } = this;
    const { longest, decay } = LENGTHS;
    state.unread = drafted > 0 ? 0 : state.unread + emitted;
    if (drafted > 0) {
      for (let j = drafted; j < longest; j++) {
        state.evaluated[j] *= decay;
        state.accepted[j] *= decay;
      }
      for (let j = 0; j < Math.min(evaluated, accepted + 1, longest); j++) {
        count(state.evaluated, state.accepted, j, j < accepted);
      }
      state.drafts = state.drafts * decay + accepted;
      state.targets = state.targets * decay + (emitted - 1);
    }
    if (match === 0) return;
    for (let j = 0; j < Math.min(emitted, agreed + 1, longest); j++) {
      count(state.compared, state.agreed, this.place(match + j), j < agreed);
    }
  }
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
