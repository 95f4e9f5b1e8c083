// For each folder of the vectors: what the trial answers to an input. A handler throws, or returns what `expect` has.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Session } from './decoding/generate.mjs';
import { TableGraph } from './decoding/tables.mjs';
import { RandomSource, SplitMix64 } from './decoding/random.mjs';
import { Distribution, NoDistribution, drafterDistribution, targetDistribution } from './decoding/sampling.mjs';
import { TextStream } from './text/utf8.mjs';
import { Output } from './text/stop.mjs';
import { VocabMap, trie } from './vocab/vocab_map.mjs';
import { BEGIN, DEAD_END, END, EXPAND, longestFirst, walk } from './decoding/translate.mjs';
import { draftChange, paperDistribution, verifyBlock, verifyMatch, verifyPaper, verifyToken } from './decoding/verify.mjs';
import { NgramCache } from './vocab/ngram_cache.mjs';
import { Fault, openBundle, plain, sha256 } from './files/bundle.mjs';
import { firstContext } from './vocab/context.mjs';
import { conversation, givenIds } from './vocab/template.mjs';
import { ThoughtStream, answerStart, keptIds, keptStart } from './text/thought.mjs';
import { Tokenizer } from './text/tokenizer.mjs';
import { readTokenizerFile } from './text/tokenizer_file.mjs';
import { fingerprint } from './vocab/fingerprint.mjs';
import { checkModels, readMapFile } from './vocab/map_file.mjs';
import { readCache } from './vocab/cache_file.mjs';
import { DraftLength, FixedLength, newState, verification } from './decoding/draft_length.mjs';
import { find } from './decoding/lookup.mjs';

const fromHex = (text) => [...Buffer.from(text.replaceAll(' ', ''), 'hex')];
const toHex = (u64) => '0x' + u64.toString(16).padStart(16, '0');

/** A generator that gives the uniforms of a vector, and no more. */
class Listed {
  constructor(uniforms) {
    this.left = [...uniforms];
  }

  uniform() {
    if (this.left.length === 0) throw new Error('one uniform too many');
    return this.left.shift();
  }

  end() {
    if (this.left.length > 0) throw new Error(`${this.left.length} uniforms were not taken`);
  }
}

function withUniforms(uniforms, work) {
  const listed = new Listed(uniforms);
  const answer = work(new RandomSource(listed));
  listed.end();
  return answer;
}

function random(input, expect) {
  if ('seed' in input) {
    const words = new SplitMix64(BigInt(input.seed));
    const uniforms = new SplitMix64(BigInt(input.seed));
    return {
      u64: expect.u64?.map(() => toHex(words.next())),
      uniforms: expect.uniforms?.map(() => uniforms.uniform()),
    };
  }
  if ('bernoulli' in input) {
    return withUniforms(input.uniforms, (source) => ({ answers: input.bernoulli.map((x) => source.bernoulli(x)) }));
  }
  return withUniforms(input.uniforms, (source) => ({ indices: input.uniforms.map(() => source.categorical(input.weights)) }));
}

function sampling(input) {
  const logits = input.logits.map(Number); // NaN and infinities are text
  try {
    const law = 'banned' in input
      ? drafterDistribution(logits, input.temperature, input.banned)
      : targetDistribution(logits, input.settings, input.context);
    return { probabilities: law.weights.map((w) => w / law.total), fault: null };
  } catch (error) {
    if (!(error instanceof NoDistribution)) throw error;
    return { probabilities: null, fault: 'logits' };
  }
}

function utf8(input) {
  const stream = new TextStream();
  return { pieces: input.chunks.map((chunk) => stream.push(fromHex(chunk))), rest: stream.rest() };
}

function stop(input) {
  let output;
  try {
    output = new Output({
      bytesOf: (id) => fromHex(input.bytes[id]),
      eosIds: input.eos_ids, stop: input.stop, maxNewTokens: input.max_new_tokens, room: input.room,
    });
  } catch (error) {
    if (error instanceof RangeError) return { refused: true };
    throw error;
  }
  const rounds = [];
  for (const tokens of input.rounds) if (output.reason === null) rounds.push(output.round(tokens));
  return {
    emitted: rounds.map((r) => r.emitted), pieces: rounds.map((r) => r.piece), text: rounds.map((r) => r.piece).join(''),
    reason: output.reason, stop_string: output.stopString, stop_start: output.stopStart,
  };
}

function decisionForm(decision) {
  const form = { step: decision.step, row: decision.row, draft: decision.draft };
  if (decision.step === EXPAND) return { ...form, target_id: decision.token };
  form.path = (decision.step === END || decision.step === DEAD_END ? decision.at : decision.to).path;
  if (decision.step === BEGIN && decision.excluded !== null) form.excluded = decision.excluded.path;
  return form;
}

function translate(input, expect, maps) {
  const map = maps(input.map);
  const rule = 'decisions' in expect ? walk : longestFirst;
  const cache = new NgramCache(map, input.capacity ?? Infinity);
  for (const target of input.active) cache.insert(target);
  if (input.prefilled) cache.prefill();
  const proposal = rule(map, trie(map, cache.entries.keys()), input.draft, input.max_tokens, input.expand);
  return {
    tokens: proposal.tokens, ends: proposal.ends, used: proposal.used,
    decisions: (proposal.decisions ?? []).map(decisionForm), tail: proposal.tail?.path ?? null,
  };
}

const RULES = { token: verifyToken, block: verifyBlock, match: verifyMatch, paper: verifyPaper };

function verify(input, expect, maps) {
  const map = maps(input.map);
  const q = input.q.map((row) => new Distribution(row));
  if ('proposed' in input) return { distribution: paperDistribution(map, input.proposed, q, map.spellings.length) };
  const root = trie(map, input.active);
  const walked = input.rule === 'token' || input.rule === 'block';
  const rule = walked ? walk : longestFirst;
  const proposal = rule(map, root, input.draft, 64, input.rule !== 'paper');
  const p = (row) => new Distribution(input.p[row]);
  return withUniforms(input.uniforms, (source) => {
    const verdict = RULES[input.rule]({ map, root, proposal, p, q: (i) => q[i], random: source });
    const emitted = [...proposal.tokens.slice(0, verdict.accepted), verdict.token];
    const change = draftChange(map, proposal, input.draft, verdict.accepted, emitted);
    return {
      accepted: verdict.accepted, token: verdict.token, is_bonus: verdict.isBonus, evaluated: verdict.evaluated,
      accepted_drafts: verdict.acceptedDrafts, target_rewind: proposal.tokens.length - verdict.accepted,
      draft_rewind: change.rewind, draft_append: change.append,
    };
  });
}

function lookup(input) {
  const found = input.contexts.map((context) => find(context, input.count));
  return { copies: found.map((one) => one.copy), matches: found.map((one) => one.match) };
}

function cacheLearn(input, expect, maps, folder) {
  const cache = new NgramCache(maps(input.map), input.capacity);
  if (input.start) {
    const { tick, entries } = readCache(readFileSync(join(folder, input.start)));
    cache.tick = tick;
    for (const entry of entries) cache.insert(entry.target_id, entry);
  }
  const created = input.rounds.map((round) => cache.learn(round.emitted, round.accepted));
  return { new: created, entries: cache.table };
}

/** The draft length of one text; state: of the texts before it in the session. */
function lengthOf(input, state) {
  if (input.num_draft_tokens !== 'auto') return new FixedLength(input.num_draft_tokens, input.mode);
  const seeded = (input.sampling.temperature ?? 0) > 0;
  const length = new DraftLength(input.costs, {
    drafts: input.mode !== 'lookup', copies: ['trie', 'lookup'].includes(input.mode), state: seeded ? newState() : state,
  });
  length.beginText(input.mode === 'lookup' ? 0 : input.draft_prompt.length, 0);
  return length;
}

async function generate(input, expect, maps, folder) {
  const state = newState();
  const graph = (name, positions) => new TableGraph(table(folder, name), positions);
  const map = maps(input.map);
  const cache = new NgramCache(map, 32768);
  for (const target of input.active) cache.insert(target);
  const session = new Session({
    map, cache, target: graph(input.target, input.max_length), targetLength: input.max_length,
    drafter: graph(input.drafter, input.draft_max_length), drafterLength: input.draft_max_length, bos: input.draft_start,
  });
  const answer = async (one) => {
    const length = lengthOf(input, state);
    const settings = {
      mode: input.mode, verification: input.verification, sampling: input.sampling, seed: BigInt(one.seed),
      length, maxNewTokens: input.max_new_tokens, eosIds: one.eos_ids,
    };
    const { tokens, uniforms, rounds, context } = await session.generate(one.prompt, one.draft_prompt, settings);
    return {
      tokens, uniforms, context, entries: structuredClone(cache.table),
      rounds: rounds.map((round) => only(round, expect.rounds[0])), ...(length.state ? { written: length.state.written } : {}),
    };
  };
  const answers = await answer(input);
  const then = [];
  for (const next of input.then ?? []) then.push(await answer(next));
  return { ...answers, then };
}

/** The directory of a vector: its files, and manifest.json. */
class Listing {
  constructor(files) {
    this.files = files;
  }

  read(path) {
    return this.files.get(path) ?? null;
  }

  hasLink() {
    return false;
  }
}

function manifestOf(input, folder) {
  if ('bytes' in input) return Buffer.from(input.bytes, 'hex');
  if ('text' in input) return input.text === null ? null : Buffer.from(input.text + ' '.repeat(input.spaces ?? 0), 'utf8');
  const body = readFileSync(join(folder, input.base), 'utf8');
  const rest = `",${(body.slice(0, input.cut[0]) + input.insert + body.slice(input.cut[1])).slice(1)}`;
  return Buffer.from(`{"seal": "${sha256(Buffer.from(rest, 'utf8'))}${rest}`, 'utf8');
}

const COSTS = { target: 0, draft: 0, host: 0, acceptance: 0 };
const PROMPT = { prefix: '', suffix: '', between: null, after: null, begin: '', lead: '', system: null, think: null, trim: null };
const MODEL = ['graph', 'tokenizer', 'tokenizer_fingerprint', 'vocab_size', 'kv', 'bos_id', 'eos_ids', 'parameters'];

// What is read in place of a drafter that is null.
const BYTES = {
  graph: '', tokenizer: '', vocab_size: 256, kv: { num_layers: 1, num_kv_heads: 1, head_dim: 1, max_length: 1 }, bos_id: null, eos_ids: [],
  parameters: 0, tokenizer_fingerprint: '0864c10eb9f122e7b9dfef5a287f4fb7c610b310847c0c41656e0656a9b0b03e',
};

function modelRead(model) {
  const fields = Object.fromEntries(MODEL.map((name) => [name, model[name]]));
  return {
    ...fields, kv: { type: 'float32', ...model.kv }, fingerprint: model.fingerprint ?? null, lora: model.lora ?? null,
    layout: model.layout ?? 'shared', train: model.train?.rank ?? null,
    places: model.npu ? ['npu', ...Object.keys(model.npu.providers)] : [],
  };
}

function bundle(input, expect, maps, folder) {
  const names = JSON.parse(readFileSync(join(folder, 'files.json'), 'utf8'));
  const files = new Map(names.map((name) => [name, Buffer.from(name, 'utf8')]));
  files.set('manifest.json', manifestOf(input, folder));
  for (const [name, bytes] of Object.entries(input.files)) files.set(name, bytes === null ? null : Buffer.from(bytes, 'hex'));
  return faultOr(() => {
    const read = plain(openBundle(new Listing(files)));
    return {
      read: {
        seal: read.seal, target: modelRead(read.target), drafter: modelRead(read.drafter ?? BYTES), prompt: only({ ...read.prompt, trim: read.prompt.trim ?? ['answer_start', 'answer_end'] }, PROMPT),
        costs: only(read.costs, COSTS), measured_on: read.costs.machine ?? null, vocab_map: read.vocab_map,
      },
    };
  });
}

function mapInvalid(input, expect, maps, folder) {
  const bytes = 'bytes' in input ? Buffer.from(input.bytes, 'hex') : readFileSync(join(folder, input.file));
  return faultOr(() => {
    const map = readMapFile(bytes);
    if (input.models) checkModels(map, input.models);
    return { fault: null };
  });
}

/** The map that was read must be the map of `maps`; then its name is the answer. */
function mapValid(input, expect, maps, folder) {
  const read = readMapFile(readFileSync(join(folder, input.file)));
  const want = JSON.parse(readFileSync(join(folder, '..', '..', 'maps', `${expect.map}.json`), 'utf8'));
  const whole = { ...read, target_bytes: read.target_bytes.map((bytes) => Buffer.from(bytes).toString('hex')) };
  const differs = Object.keys(whole).filter((name) => !isDeepStrictEqual(whole[name], want[name]));
  return { map: differs.length === 0 ? expect.map : `differs in ${differs}` };
}

function mapFingerprint(input) {
  return { fingerprint: fingerprint(input.tokens.map((hex) => (hex === null ? null : fromHex(hex))), input.controls) };
}

function faultOr(work) {
  try {
    return work();
  } catch (error) {
    if (error instanceof Fault) return { fault: error.fault };
    throw error;
  }
}

/** The fields of an object that another object has. */
function only(object, other) {
  return Object.fromEntries(Object.keys(other).map((key) => [key, object[key]]));
}

function table(folder, graph) {
  return JSON.parse(readFileSync(join(folder, '..', 'generate', graph.replace('.onnx', '.table.json')), 'utf8'));
}

const RECORD = ['match', 'classes', 'evaluated', 'accepted', 'emitted', 'agreed'];
const record = (numbers) => Object.fromEntries(RECORD.map((name, i) => [name, numbers[i]]));

/** Rows with a number in front that says how often each repeats. */
function packed(rows) {
  const runs = [];
  for (const row of rows) {
    if (runs.length > 0 && isDeepStrictEqual(runs.at(-1).slice(1), row)) runs.at(-1)[0] += 1;
    else runs.push([1, ...row]);
  }
  return runs;
}

function draftLength(input) {
  if ('vocab_size' in input) return { verification: verification(input.costs, input.vocab_size) };
  const length = new DraftLength(input.costs, { drafts: input.drafts });
  const texts = input.texts.map(({ records, context }) => {
    length.beginText(...context);
    const plans = [];
    let last = null;
    for (const [times, ...numbers] of records) {
      for (let i = 0; i < times; i++) {
        const plan = length.plan(numbers[0]);
        plans.push([plan.source, plan.count, plan.fresh]);
        if (plan.chances) last = { chances: plan.chances, worth: plan.worth, least: plan.least };
        length.record(record(numbers));
      }
    }
    return { plans: packed(plans), last_draft: last, state: structuredClone(length.state) };
  });
  return { texts };
}

const tokenizers = new Map();

/** The compiled tokenizer of a vector; the vectors of `tokenize` name tokenizer.json, which lies beside it. */
function tokenizerOf(folder, name) {
  const path = join(folder, name.replace(/\.json$/, '.bin'));
  if (!tokenizers.has(path)) tokenizers.set(path, new Tokenizer(readFileSync(path)));
  return tokenizers.get(path);
}

const hex = (bytes) => (bytes === null ? null : Buffer.from(bytes).toString('hex'));

function allBytes(tokenizer) {
  return Array.from({ length: tokenizer.file.ids }, (_, id) => tokenizer.bytesOf(id));
}

function tokenizerHandler(input, expect, maps, folder) {
  const tokenizer = tokenizerOf(folder, input.file);
  if ('spell' in input) return { ids: tokenizer.spell(fromHex(input.spell)) };
  if ('prefix' in input) return { ids: tokenizer.encodePrompt([input.prefix, input.text, input.suffix], input.goes_on) };
  if ('text' in input) return { ids: tokenizer.encode(input.text) };
  const tokens = allBytes(tokenizer);
  const controls = tokenizer.control.map((token) => [token.id, token.content]);
  return { bytes: tokens.map(hex), fingerprint: fingerprint(tokens, controls) };
}

function tokenizerInvalid(input, expect, maps, folder) {
  return faultOr(() => ({ fault: null, read: readTokenizerFile(readFileSync(join(folder, input.file))) }));
}

function tokenize(input, expect, maps, folder) {
  const tokenizer = tokenizerOf(folder, input.tokenizer);
  if ('spell' in input) return { ids: tokenizer.spell(fromHex(input.spell)) };
  if (!('prefix' in input)) return { bytes: allBytes(tokenizer).map(hex) };
  const ids = tokenizer.encodePrompt([input.prefix, input.text, input.suffix], false);
  return { ids, bytes: hex(tokenizer.bytes(ids)) };
}

function template(input, expect, maps, folder) {
  const tokenizer = tokenizerOf(join(folder, '..', 'tokenize'), input.tokenizer);
  if ('given' in input) return { ids: givenIds(tokenizer, input.lead, input.think, input.trim, input.given) };
  const ids = conversation(tokenizer, input, input.turns, input.message);
  return ids === null ? { refused: true } : { ids };
}

function thought(input, expect, maps, folder) {
  if ('ids' in input) {
    return { ids: keptIds(tokenizerOf(join(folder, '..', 'tokenize'), input.tokenizer), input.ids, input, input.inside) };
  }
  const stream = new ThoughtStream(input, input.inside);
  const parts = [...input.texts.map((text) => stream.push(text)), stream.end()];
  const output = Buffer.from(input.texts.join(''), 'utf8');
  return { parts, answer: answerStart(output, input, input.inside), kept: keptStart(output, input, input.inside) };
}

function draftPrompt(input, expect, maps, folder) {
  const [target, drafter] = [input.target, input.drafter].map((name) => tokenizerOf(join(folder, '..', 'tokenize'), name));
  return { context: firstContext({ mode: input.mode, target, drafter, prompt: input.prompt, before: input.before }) };
}

/** Handlers take (input, expect, maps, folder); `expect` only says what is asked. */
export const FOLDERS = {
  random, sampling, utf8, stop, translate, verify, lookup, draft_length: draftLength, tokenizer: tokenizerHandler,
  'tokenizer/invalid': tokenizerInvalid, tokenize, template, thought, draft_prompt: draftPrompt, bundle, generate, logprobs: generate, 'cache/learn': cacheLearn, 'map/valid': mapValid, 'map/invalid': mapInvalid, 'map/fingerprint': mapFingerprint,
};

export function readMap(json) {
  return new VocabMap(json);
}
