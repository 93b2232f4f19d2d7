// What the page computes with. Plain arrays in, plain arrays out; a test compares each with the library.

const dot = (a, b) => a.reduce((total, x, k) => total + x * b[k], 0);
const multiply = (matrix, vector) => matrix.map((row) => dot(row, vector));
const transpose = (matrix) => matrix[0].map((_, k) => matrix.map((row) => row[k]));
const product = (a, b) => {
  const columns = transpose(b);
  return a.map((row) => columns.map((column) => dot(row, column)));
};
const sum = (values) => values.reduce((total, x) => total + x, 0);
const sigmoid = (x) => 1 / (1 + Math.exp(-x));

// Scores of −Infinity are not allowed and get 0; a row with nothing allowed is all 0.
function softmax(scores) {
  const most = Math.max(...scores);
  if (most === -Infinity) return scores.map(() => 0);
  const raised = scores.map((score) => Math.exp(score - most));
  const total = sum(raised);
  return raised.map((x) => x / total);
}

// ── memories: the weight of each token. tokens: n of (music, science); a gate is [bias, music, science]

const affine = (gate, token) => gate[0] + dot(gate.slice(1), token);

const memories = {
  composite: (tokens) => tokens.map(() => 1),
  fading: (tokens, gamma) => tokens.map((_, i) => gamma ** (tokens.length - 1 - i)),
  // the product of the gates of all who come later
  forgetting: (tokens, gate) => {
    const weights = tokens.map(() => 1);
    for (let i = tokens.length - 2; i >= 0; i--) weights[i] = weights[i + 1] * sigmoid(affine(gate, tokens[i + 1]));
    return weights;
  },
  gated: (tokens, gate) => tokens.map((token) => sigmoid(affine(gate, token))),
  softmax: (tokens, query) => softmax(tokens.map((token) => dot(query, token))),
};

// Σ w_i v_i
function blend(weights, values) {
  const total = new Array(values[0].length).fill(0);
  weights.forEach((weight, i) => {
    for (let k = 0; k < total.length; k++) total[k] += weight * values[i][k];
  });
  return total;
}

// ── attention: w_ij = softmax over the j that are allowed of q_i·k_j · scale

function attentionWeights(q, k, { allowed = () => true, scale = k[0].length ** -0.5 } = {}) {
  return q.map((query, i) => softmax(k.map((key, j) => (allowed(i, j) ? dot(query, key) * scale : -Infinity))));
}

function attend(q, k, v, options = {}) {
  return attentionWeights(q, k, options).map((weights) => blend(weights, v));
}

// true: may attend
const masks = {
  none: () => true,
  causal: (i, j) => j <= i,
  window: (i, j) => Math.abs(i - j) <= 1,
  both: (i, j) => j <= i && i - j <= 1,
  padding: (i, j) => j !== 2,
};

// ── positions

const frequencies = (channels, base = 10000) => Array.from({ length: channels / 2 }, (_, i) => base ** ((-2 * i) / channels));

// code_2i = sin(where · base^(−2i/d)), code_2i+1 = cos(the same)
function sinusoidal(where, dim) {
  return frequencies(dim).flatMap((speed) => [Math.sin(where * speed), Math.cos(where * speed)]);
}

// pair i is (i, i + c/2), turned by where · base^(−2i/c)
function rotate(x, where, base = 10000) {
  const half = x.length / 2;
  const turned = [...x];
  frequencies(x.length, base).forEach((speed, i) => {
    const [cos, sin] = [Math.cos(where * speed), Math.sin(where * speed)];
    turned[i] = x[i] * cos - x[i + half] * sin;
    turned[i + half] = x[i] * sin + x[i + half] * cos;
  });
  return turned;
}

// ── matrices

const modulo = (a, n) => ((a % n) + n) % n;

// out_o = Σ_t w_t x_(o + t − middle), around the end: the taps of a correlation, as of a library's convolution
function circulant(taps, n) {
  const middle = Math.floor(taps.length / 2);
  const matrix = Array.from({ length: n }, () => new Array(n).fill(0));
  for (let o = 0; o < n; o++)
    taps.forEach((tap, t) => {
      matrix[o][modulo(o + t - middle, n)] += tap;
    });
  return matrix;
}

// (S x)_i = x_(i − by)
const shiftMatrix = (n, by) =>
  Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => (modulo(i - by, n) === j ? 1 : 0)));

// (P x)_i = x_order[i]
const permutationMatrix = (order) => order.map((from) => order.map((_, j) => (j === from ? 1 : 0)));

const ROTATIONS = [
  [0, 1, 2],
  [1, 2, 0],
  [2, 0, 1],
];

function mean(weights, matrices) {
  return matrices[0].map((row, i) => row.map((_, j) => sum(weights.map((weight, k) => weight * matrices[k][i][j]))));
}

// rows and columns are divided by their sums in turn, in logarithms
function sinkhorn(scores, temperature, rounds = 400) {
  let logs = scores.map((row) => row.map((x) => x / temperature));
  const level = (rows) =>
    rows.map((row) => {
      const most = Math.max(...row);
      const total = most + Math.log(sum(row.map((x) => Math.exp(x - most))));
      return row.map((x) => x - total);
    });
  for (let k = 0; k < rounds; k++) logs = transpose(level(transpose(level(logs))));
  return logs.map((row) => row.map(Math.exp));
}

// ── sets as numbers: Σ count_c · base^(−c), exactly, as a whole number of base^(−places)

function codeOf(counts, base) {
  return counts.reduce((total, count) => total * BigInt(base) + BigInt(count), 0n);
}

// the digits after the point, the first of which belongs to guest 1; what carries over 1 comes first
function digitsOf(code, base, places) {
  const digits = [];
  for (let k = 0; k < places; k++) {
    digits.unshift(Number(code % BigInt(base)));
    code /= BigInt(base);
  }
  return { whole: Number(code), digits };
}

function fraction(code, base, places) {
  let [a, b] = [code, BigInt(base) ** BigInt(places)];
  for (let [x, y] = [a, b]; ; [x, y] = [y, x % y])
    if (y === 0n) {
      if (x > 0n) {
        a /= x;
        b /= x;
      }
      break;
    }
  return b === 1n ? String(a) : `${a}/${b}`;
}

// ── the decoder of the latent space: linear maps with a relu between

function unpack({ shape, data }) {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const flat = Array.from({ length: bytes.length / 4 }, (_, k) => view.getFloat32(4 * k, true));
  if (shape.length === 1) return flat;
  return Array.from({ length: shape[0] }, (_, i) => flat.slice(i * shape[1], (i + 1) * shape[1]));
}

function decode(layers, code) {
  return layers.reduce((x, { weight, bias }, k) => {
    const out = multiply(weight, x).map((value, i) => value + bias[i]);
    return k < layers.length - 1 ? out.map((value) => Math.max(0, value)) : out;
  }, code);
}
