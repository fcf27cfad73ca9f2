/** The same model in ONNX Runtime Web's training build, from the graphs that bench/ort_graphs.py makes. */

import * as ort from "onnxruntime-web/training";

import { peerLane, serve } from "./lane.js";
import { check, choose, END, timed, unpackMaterial } from "./workload.js";

class OrtPeer {
  constructor(graphs) {
    this.graphs = graphs;
  }

  versions() {
    return { "ONNX Runtime Web": `${ort.env.versions.common}, training, one thread` };
  }

  /** A session's optimiser cannot be made to forget: new material gets new sessions, the same one keeps its memory. */
  async load(material) {
    const { shape, arrays } = material;
    if (this.material !== material) {
      for (const session of [this.session, this.logprobSession, this.decodingSession]) await session?.release();
      const folder = `${this.graphs}${shape.width === 16 ? "course" : `width-${shape.width}`}/`;
      const files = {
        checkpointState: `${folder}checkpoint`,
        trainModel: `${folder}training_model.onnx`,
        evalModel: `${folder}eval_model.onnx`,
        optimizerModel: `${folder}optimizer_model.onnx`,
      };
      this.session = await ort.TrainingSession.create(files, { executionProviders: ["wasm"] });
      this.logprobSession = await ort.InferenceSession.create(`${folder}logprobs.onnx`);
      this.decodingSession = await ort.InferenceSession.create(`${folder}decoding.onnx`);
      this.material = material;
    }
    this.shape = shape;
    this.reference = arrays.parameters.data;
    await this.session.loadParametersBuffer(new Uint8Array(this.reference.slice().buffer), true);
  }

  async step(tokens, weights) {
    await this.session.runTrainStep({ ...batchFeeds(tokens), weights: floats(weights.data, weights.shape) });
    await this.session.runOptimizerStep();
    await this.session.lazyResetGrad();
  }

  async logprobs(tokens, reference = false) {
    const feeds = batchFeeds(tokens);
    const shape = feeds.targets.dims;
    const { losses } = reference
      ? await this.logprobSession.run({ ...feeds, parameters: floats(this.reference, [this.reference.length]) })
      : await this.session.runEvalStep({ ...feeds, weights: floats(new Float32Array(feeds.targets.size), shape) });
    return { shape, data: Float32Array.from(losses.data, (loss) => -loss) };
  }

  async decode(prompts, length, uniforms) {
    const { layers, heads, width, vocabulary } = this.shape;
    const [B, P] = prompts.shape;
    const parameters = await this.session.getContiguousParameters(true);
    const tokens = new Int32Array(B * length).fill(END);
    const running = new Uint8Array(B).fill(1);
    let past = floats(new Float32Array(0), [2 * layers, B, heads, 0, width / heads]);
    let fed = prompts.data;
    let left = B;
    for (let step = 0; step < length && left > 0; step++) {
      const T = fed.length / B;
      const from = step === 0 ? 0 : P + step - 1;
      const { logits, present } = await this.decodingSession.run({
        parameters,
        inputs: integers(fed, [B, T]),
        positions: integers(Int32Array.from({ length: T }, (_, t) => from + t), [T]),
        mask: causalMask(T, from + T),
        past,
      });
      past = present;
      fed = new Int32Array(B);
      for (let b = 0; b < B; b++) {
        const uniform = uniforms ? uniforms.data[b * length + step] : null;
        fed[b] = running[b] ? choose(logits.data, b * vocabulary, vocabulary, uniform) : END;
        tokens[b * length + step] = fed[b];
        if (running[b] && fed[b] === END) (running[b] = 0), left--;
      }
    }
    return { shape: [B, length], data: tokens };
  }
}

const floats = (data, shape) => new ort.Tensor("float32", data, shape);
const integers = (data, shape) => new ort.Tensor("int32", data, shape);

/** In the order of the graph's inputs: a training session of this version takes them by place, not by name. */
function batchFeeds({ shape: [B, length], data }) {
  const T = length - 1;
  const inputs = new Int32Array(B * T);
  const targets = new Int32Array(B * T);
  for (let b = 0; b < B; b++) {
    inputs.set(data.subarray(b * length, b * length + T), b * T);
    targets.set(data.subarray(b * length + 1, (b + 1) * length), b * T);
  }
  return {
    inputs: integers(inputs, [B, T]),
    positions: integers(Int32Array.from({ length: T }, (_, t) => t), [T]),
    mask: causalMask(T, T),
    targets: integers(targets, [B, T]),
  };
}

/** T queries, the last of which stands at position S - 1. */
function causalMask(T, S) {
  const values = new Float32Array(T * S);
  for (let row = 0; row < T; row++) values.fill(-1e9, row * S + (S - T) + row + 1, (row + 1) * S);
  return floats(values, [T, S]);
}

serve(async ({ files, graphs }) => {
  ort.env.wasm.wasmPaths = files;
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = "error";
  return peerLane(new OrtPeer(graphs), { check, timed, unpackMaterial });
});
