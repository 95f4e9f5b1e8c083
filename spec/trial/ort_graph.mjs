// A graph of a bundle in onnxruntime-node: 03-bundle.md, "The graph".

import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

/** onnxruntime-node of the folder that `npm ci` wrote its node_modules into. */
export function onnxruntime(folder) {
  return createRequire(join(resolve(folder), 'package.json'))('onnxruntime-node');
}

export class OrtGraph {
  /** ort: the module; kv: the manifest's object: num_layers, num_kv_heads, head_dim, max_length. */
  static async open(ort, path, kv) {
    const graph = Object.assign(new OrtGraph(), { ort });
    graph.session = await ort.InferenceSession.create(path, { intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3 });
    graph.kv = {};
    const shape = [1, kv.num_kv_heads, kv.max_length, kv.head_dim];
    for (let i = 0; i < kv.num_layers; i++) {
      for (const part of ['key', 'value']) {
        const zeros = new Float32Array(shape.reduce((a, b) => a * b, 1));
        graph.kv[`${i}.${part}`] = new ort.Tensor('float32', zeros, shape);
      }
    }
    return graph;
  }

  async run(past, ids, rows) {
    const { ort } = this;
    const feeds = {
      input_ids: new ort.Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]),
      seqlens_k: new ort.Tensor('int32', Int32Array.of(past + ids.length - 1), [1]),
      total_sequence_length: new ort.Tensor('int32', Int32Array.of(past + ids.length), [1]),
      num_logits: new ort.Tensor('int64', BigInt64Array.of(BigInt(rows)), [1]),
    };
    for (const [name, tensor] of Object.entries(this.kv)) feeds[`past_key_values.${name}`] = tensor;
    const answer = await this.session.run(feeds);
    for (const name of Object.keys(this.kv)) this.kv[name] = answer[`present.${name}`];
    const width = answer.logits.dims[2];
    return Array.from({ length: rows }, (_, i) => answer.logits.data.subarray(i * width, (i + 1) * width));
  }

  /** Positions from `length` on have no influence: the length of the next pass says how many count. */
  forget() {}
}
