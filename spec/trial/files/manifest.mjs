// The fields of manifest.json: 03-bundle.md, "Fields of the manifest" and "npu: static graphs".

import {
  absentOr, any, digest, integer, list, names, nullable, number, object, oneOf, optional, string, tuple,
} from './schema.mjs';

const path = string(512, 1);
const ranks = integer(1, 1024);
const width = integer(1, 2 ** 20);

const kv = object({
  num_layers: integer(1, 1024), num_kv_heads: integer(1, 1024), head_dim: integer(1, 4096), max_length: integer(1, 2 ** 24),
  type: absentOr(oneOf('float32', 'float16')),
});
const site = object({ inputs: width, parts: list(1, 8, tuple(string(64), width)) });
const lora = object({ rank: present(nullable(ranks)), sites: names(1, 8192, string(64), site) });
const tensor = object({ name: string(128), shape: tuple(integer(1, 2 ** 31 - 1), integer(1, 2 ** 31 - 1)) });
const tensors = list(1, 131072, tensor);
const train = object({ graph: path, folder: string(512), rank: ranks, tensors });

const form = object({
  mask: (v) => number(-1e9, 0)(v) && Number(v) < 0, weights: path, lora_rank: optional(ranks),
  graphs: list(1, Infinity, object({ block: integer(1, 2 ** 31 - 1), graph: path })),
});
const OPTIONS = {
  QNNExecutionProvider: [
    'backend_type', 'device_id', 'enable_htp_fp16_precision', 'htp_arch', 'htp_graph_finalization_optimization_mode',
    'htp_performance_mode', 'offload_graph_io_quantization', 'qnn_context_priority', 'rpc_control_latency', 'soc_model', 'vtcm_mb',
  ],
  CoreMLExecutionProvider: [
    'AllowLowPrecisionAccumulationOnGPU', 'EnableOnSubgraphs', 'MLComputeUnits', 'ModelFormat', 'RequireStaticInputShapes',
    'SpecializationStrategy',
  ],
  NnapiExecutionProvider: [],
};
const providerName = (v) => /^[a-z0-9][a-z0-9-]{0,31}$/.test(v) && v !== 'cpu' && v !== 'npu';
const providerFields = object({
  form: any, provider: oneOf(...Object.keys(OPTIONS)), options: (v) => v instanceof Map,
  directories: optional(list(0, Infinity, oneOf('ModelCacheDirectory'))),
});
const provider = (v) => providerFields(v) && names(
  0, Infinity, oneOf(...OPTIONS[v.get('provider')]), (x) => typeof x === 'string' && /^[A-Za-z0-9_.+-]{1,64}$/.test(x),
)(v.get('options'));
const npu = object({
  kv_length: integer(1, 2 ** 31 - 1), host: path, forms: names(1, Infinity, oneOf('float', 'qdq'), form),
  providers: names(0, Infinity, providerName, provider),
});

const SAFE = Number.MAX_SAFE_INTEGER;
const modelFields = object({
  source: string(1024), architecture: string(1024), parameters: integer(0, SAFE), quantization: string(64), graph: path,
  tokenizer: path, compiled_tokenizer: optional(path), tokenizer_fingerprint: digest, vocab_size: integer(1, 2 ** 24), kv,
  bos_id: present(nullable(integer(0, 2 ** 24 - 1))), eos_ids: list(0, 256, integer(0, 2 ** 24 - 1)),
  layout: absentOr(oneOf('shared', 'concat')), fingerprint: optional(digest), lora: optional(lora),
  train: optional(train), npu: optional(npu),
});
const model = (v) => modelFields(v) && (v.get('layout') !== 'concat' || v.get('kv').get('type') !== 'float16');
const fourth = string(65536);
const tag = string(64, 1);
const tags = object({ open: tag, close: tag, earlier: oneOf('keep', 'cut', 'trim') });
const think = (v) => tags(v) && v.get('open') !== v.get('close');
const MESSAGES = ['system_start', 'system_end', 'behind_start', 'first_start', 'first_end', 'later_start', 'later_end', 'answer_start', 'answer_end'];
const trim = (v) => list(0, MESSAGES.length, oneOf(...MESSAGES))(v) && new Set(v).size === v.length;
const prompt = object({
  prefix: fourth, suffix: fourth, between: present(nullable(fourth)), after: present(nullable(fourth)), begin: fourth, lead: fourth,
  system: present(nullable(object({ before: fourth, after: fourth }))), think: present(nullable(think)),
  template: present(nullable(path)), names: names(0, 64, string(64), fourth), trim: optional(trim),
});
const cores = integer(1, 65536);
const machine = object({
  cpu: string(256), cores, system: string(64), onnxruntime: string(64), threads: cores, target_on: string(256), drafter_on: string(256),
});
const costs = object({
  target: list(1, 256, number(1e-9, 1e9)), draft: number(1e-9, 1e9), host: number(0, 1e9), acceptance: number(0, 1),
  machine: optional(machine),
});
const manifest = object({ omnidraft: string(64), target: model, drafter: present(nullable(model)), vocab_map: path, prompt, costs });

/** The field must be there, also where it may be null. */
function present(kind) {
  return (v) => v !== undefined && kind(v);
}

export const loraTensors = (model, rank) => [...model.get('lora').get('sites')].flatMap(([site, fields]) =>
  fields.get('parts').flatMap(([part, width]) => [
    [`${site}.${part}.lora_a`, fields.get('inputs'), rank], [`${site}.${part}.lora_b`, rank, width],
  ]));

const shapes = (tensors) => tensors.map((tensor) => `${tensor.get('name')} ${tensor.get('shape')}`);
const wanted = (tensors) => tensors.map(([name, ...shape]) => `${name} ${shape}`);
const equal = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

function trainFits(model) {
  const train = model.get('train') ?? null;
  if (train === null) return true;
  if (!model.get('lora') || !model.get('fingerprint')) return false;
  return equal(shapes(train.get('tensors')).sort(), wanted(loraTensors(model, train.get('rank'))).sort());
}

function npuFits(model) {
  const npu = model.get('npu') ?? null;
  if (npu === null) return true;
  const forms = npu.get('forms');
  const fits = (form) => {
    const blocks = form.get('graphs').map((graph) => graph.get('block'));
    const ranked = (form.get('lora_rank') ?? null) !== null;
    return blocks.includes(1n) && blocks.every((block) => block <= npu.get('kv_length')) && (!ranked || Boolean(model.get('lora')));
  };
  return forms.has('float') && [...forms.values()].every(fits)
    && [...npu.get('providers').values()].every((one) => forms.has(one.get('form')));
}

function modelFits(model) {
  const ids = [...model.get('eos_ids'), ...(model.get('bos_id') === null ? [] : [model.get('bos_id')])];
  return ids.every((id) => id < model.get('vocab_size')) && trainFits(model) && npuFits(model);
}

/** Is every field but `files` there, of its kind and in its range? */
export function fieldsAreRight(value) {
  if (!manifest(value)) return false;
  const prompt = value.get('prompt');
  if ((prompt.get('between') === null) !== (prompt.get('after') === null)) return false;
  return modelsOf(value).every(modelFits);
}

/** The target, and the drafter if there is one. */
export function modelsOf(value) {
  return [value.get('target'), value.get('drafter')].filter((model) => model !== null);
}

function pathsOfModel(model) {
  const paths = ['graph', 'tokenizer', 'compiled_tokenizer'].map((name) => model.get(name));
  const train = model.get('train');
  if (train) paths.push(train.get('graph'));
  const npu = model.get('npu');
  if (npu) {
    paths.push(npu.get('host'));
    for (const form of npu.get('forms').values()) paths.push(form.get('weights'), ...form.get('graphs').map((g) => g.get('graph')));
  }
  return paths;
}

/** Every path that the fields name. */
export function pathsOf(value) {
  const paths = [value.get('vocab_map'), value.get('prompt').get('template'), ...modelsOf(value).flatMap(pathsOfModel)];
  return paths.filter((path) => path !== null && path !== undefined);
}
