/** The same model in TensorFlow.js with its WebAssembly backend (SIMD, one thread, as in a page without isolation). */

import { setWasmPaths, version_wasm as wasmVersion } from "@tensorflow/tfjs-backend-wasm";
import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-core/dist/register_all_gradients";

import { peerLane, serve } from "./lane.js";
import { ADAM, check, choose, CLIP_NORM, END, RATE, timed, unpackMaterial } from "./workload.js";

class TfjsPeer {
  versions() {
    return { "TensorFlow.js": `${tf.version_core}, backend ${tf.getBackend()} ${wasmVersion}` };
  }

  load({ shape, layout, arrays }) {
    for (const tensors of [this.parameters, this.reference]) tf.dispose(tensors ?? []);
    this.optimizer?.dispose();
    this.shape = shape;
    this.parameters = {};
    this.reference = {};
    for (const [name, size, offset] of layout) {
      const count = size.reduce((product, length) => product * length, 1);
      const values = arrays.parameters.data.slice(offset, offset + count);
      this.reference[name] = tf.tensor(values, size, "float32");
      this.parameters[name] = tf.variable(tf.tensor(values, size, "float32"), true, `${name}.${TfjsPeer.loads++}`);
    }
    this.optimizer = tf.train.adam(RATE, ADAM.beta1, ADAM.beta2, ADAM.epsilon);
  }
  static loads = 0;

  step(tokens, weights) {
    tf.tidy(() => {
      const given = tf.tensor(weights.data, weights.shape);
      const loss = () => tf.sum(tf.mul(this.tokenLogprobs(this.parameters, tokens), given));
      const { grads } = tf.variableGrads(loss, Object.values(this.parameters));
      const squares = Object.values(grads).map((gradient) => tf.sum(tf.square(gradient)));
      const norm = Math.sqrt(tf.addN(squares).dataSync()[0]);
      if (norm > CLIP_NORM) for (const name in grads) grads[name] = tf.mul(grads[name], CLIP_NORM / norm);
      this.optimizer.applyGradients(grads);
    });
  }

  logprobs(tokens, reference = false) {
    const [B, length] = tokens.shape;
    const data = tf.tidy(() => this.tokenLogprobs(reference ? this.reference : this.parameters, tokens).dataSync());
    return { shape: [B, length - 1], data: new Float32Array(data) };
  }

  decode(prompts, length, uniforms) {
    const { layers, width, vocabulary } = this.shape;
    const [B, P] = prompts.shape;
    const tokens = new Int32Array(B * length).fill(END);
    const running = new Uint8Array(B).fill(1);
    let past = Array.from({ length: layers }, () => null);
    let fed = prompts.data;
    let left = B;
    for (let step = 0; step < length && left > 0; step++) {
      const T = fed.length / B;
      const [logits, next] = tf.tidy(() => {
        const present = [];
        const from = step === 0 ? 0 : P + step - 1;
        let x = this.embed(this.parameters, fed, B, T, from);
        const mask = T === 1 ? null : causalMask(T);
        for (let index = 0; index < layers; index++) {
          x = this.layer(this.parameters, index, x, B, T, (query, key, value) => {
            const [keys, values] = past[index]
              ? [tf.concat([past[index][0], key], 2), tf.concat([past[index][1], value], 2)]
              : [key, value];
            present.push([keys, values]);
            return attention(query, keys, values, mask);
          });
        }
        const last = tf.slice(tf.reshape(x, [B, T, width]), [0, T - 1, 0], [B, 1, width]);
        return [this.head(this.parameters, tf.reshape(last, [B, width])), present];
      });
      tf.dispose(past.filter(Boolean));
      past = next;
      const values = logits.dataSync();
      logits.dispose();
      fed = new Int32Array(B);
      for (let b = 0; b < B; b++) {
        const uniform = uniforms ? uniforms.data[b * length + step] : null;
        fed[b] = running[b] ? choose(values, b * vocabulary, vocabulary, uniform) : END;
        tokens[b * length + step] = fed[b];
        if (running[b] && fed[b] === END) (running[b] = 0), left--;
      }
    }
    tf.dispose(past.filter(Boolean));
    return { shape: [B, length], data: tokens };
  }

  /** (B, T) log-probabilities of the tokens after the first. The backend has no gather with a gradient: one-hot rows. */
  tokenLogprobs(p, { shape, data }) {
    const [B, length] = shape;
    const T = length - 1;
    const inputs = new Int32Array(B * T);
    const targets = new Int32Array(B * T);
    for (let b = 0; b < B; b++) {
      inputs.set(data.subarray(b * length, b * length + T), b * T);
      targets.set(data.subarray(b * length + 1, (b + 1) * length), b * T);
    }
    const mask = causalMask(T);
    let x = this.embed(p, inputs, B, T, 0);
    for (let index = 0; index < this.shape.layers; index++) {
      x = this.layer(p, index, x, B, T, (query, key, value) => attention(query, key, value, mask));
    }
    const chosen = oneHot(targets, this.shape.vocabulary);
    const logprobs = tf.logSoftmax(this.head(p, x));
    return tf.reshape(tf.sum(tf.mul(logprobs, chosen), 1), [B, T]);
  }

  /** (B·T, D) */
  embed(p, tokens, B, T, from) {
    const { vocabulary, width } = this.shape;
    const rows = oneHot(tokens, vocabulary);
    const words = tf.reshape(tf.matMul(rows, p.token_embedding), [B, T, width]);
    return tf.reshape(tf.add(words, tf.slice(p.position_embedding, [from, 0], [T, width])), [B * T, width]);
  }

  layer(p, index, x, B, T, attend) {
    const { heads, width } = this.shape;
    const prefix = `layer${index}`;
    const dense = (y, name) => tf.add(tf.matMul(y, p[`${prefix}.${name}.weight`]), p[`${prefix}.${name}.bias`]);
    const mixedIn = dense(norm(x, p[`${prefix}.norm1.gain`], p[`${prefix}.norm1.bias`]), "attention");
    const split = tf.transpose(tf.reshape(mixedIn, [B, T, 3 * heads, width / heads]), [0, 2, 1, 3]);
    const [query, key, value] = tf.split(split, 3, 1);
    const mixed = tf.reshape(tf.transpose(attend(query, key, value), [0, 2, 1, 3]), [B * T, width]);
    const middle = tf.add(x, dense(mixed, "projection"));
    const wide = dense(norm(middle, p[`${prefix}.norm2.gain`], p[`${prefix}.norm2.bias`]), "expand");
    return tf.add(middle, dense(gelu(wide), "contract"));
  }

  head(p, x) {
    return tf.matMul(norm(x, p["norm.gain"], p["norm.bias"]), p["head.weight"]);
  }
}

/** The backend's one-hot rows are whole numbers, whatever it is asked for. */
function oneHot(tokens, size) {
  return tf.cast(tf.oneHot(tf.tensor1d(tokens, "int32"), size), "float32");
}

function norm(x, gain, bias) {
  const centred = tf.sub(x, tf.mean(x, -1, true));
  const variance = tf.mean(tf.square(centred), -1, true);
  return tf.add(tf.mul(tf.mul(centred, tf.rsqrt(tf.add(variance, 1e-5))), gain), bias);
}

function gelu(x) {
  const inner = tf.mul(tf.mul(x, tf.add(tf.mul(tf.square(x), 0.044715), 1)), Math.sqrt(2 / Math.PI));
  return tf.mul(tf.mul(x, 0.5), tf.add(tf.tanh(inner), 1));
}

function attention(query, key, value, mask) {
  const scores = tf.mul(tf.matMul(query, key, false, true), 1 / Math.sqrt(query.shape[3]));
  return tf.matMul(tf.softmax(mask ? tf.add(scores, mask) : scores), value);
}

function causalMask(T) {
  const values = new Float32Array(T * T);
  for (let row = 0; row < T; row++) values.fill(-1e9, row * T + row + 1, (row + 1) * T);
  return tf.tensor2d(values, [T, T]);
}

serve(async ({ files }) => {
  setWasmPaths(files);
  if (!(await tf.setBackend("wasm"))) throw new Error("TensorFlow.js did not start its WASM backend");
  await tf.ready();
  return peerLane(new TfjsPeer(), { check, timed, unpackMaterial });
});
