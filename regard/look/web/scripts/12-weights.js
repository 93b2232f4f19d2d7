// The weights of one head: those that the page lists, or all of them when a server has them.

const MEAN = -1;  // in the place of a head: all of them together

const NOTHING = 4e-6;  // a small map has no byte for less: there, as under a mask, nothing is drawn

const lists = new WeakMap();  // layer -> promise of its lists

function listsOf(layer) {
  if (!lists.has(layer)) {
    const { columns, weights, exact } = layer.largest;
    const numbers = (bytes) => (exact ? floatsOf(bytes) : fromHalves(bytes));
    const parts = Promise.all([unpacked(columns), unpacked(weights), smallOf(layer)]);
    lists.set(layer, parts.then(([where, what, small]) => ({ columns: sixteens(where), weights: numbers(what), small })));
  }
  return lists.get(layer);
}

const smalls = new WeakMap();

function smallOf(layer) {
  if (!smalls.has(layer)) smalls.set(layer, unpacked(layer.small.data));
  return smalls.get(layer);
}

class Weights {
  // values: n × m, NaN where only a bound is known
  constructor(n, m, values, bound) {
    Object.assign(this, { n, m, values, bound });
  }

  static async listed(layer, place) {
    const { n, m, largest: { count }, small: { height, width } } = layer;
    const { columns, weights, small } = await listsOf(layer);
    const values = new Float32Array(n * m).fill(NaN);
    const smallest = new Float32Array(n);  // of the listed weights of a row; 0 if all others are 0
    for (let i = 0; i < n; i++) {
      let [found, least] = [0, Infinity];
      for (let k = 0; k < count; k++) {
        const entry = (place * n + i) * count + k;
        if (columns[entry] === 65535) continue;
        values[i * m + columns[entry]] = weights[entry];
        least = Math.min(least, weights[entry]);
        found += 1;
      }
      smallest[i] = found < count ? 0 : least;
    }
    // a small map says what the largest weight of a block is, which is often a closer bound
    const row = (i) => place * height + Math.floor((i * height) / n);
    const block = (i, j) => small[row(i) * width + Math.floor((j * width) / m)];
    return new Weights(n, m, values, (i, j) => Math.min(smallest[i], ((block(i, j) + 0.5) / 255) ** 2));
  }

  static async served(record, layer, place) {
    const path = ["/api/weights", record, layer.layer, layer.call, layer.heads[place], layer.window ?? 0].join("/");
    const answer = await fetch(withToken(path));
    if (!answer.ok) throw new Error(`the server has no weights of record ${record}`);
    const values = new Float32Array(await answer.arrayBuffer());
    if (values.length !== layer.n * layer.m) throw new Error(`got ${values.length} weights, expected ${layer.n} × ${layer.m}`);
    return new Weights(layer.n, layer.m, values, null);
  }

  // {value} or {below}
  at(i, j) {
    const value = this.values[i * this.m + j];
    if (!Number.isNaN(value)) return { value };
    const below = this.bound(i, j);
    return below === 0 ? { value: 0 } : { below };
  }

  // What is drawn, n × m: where a weight is not listed, an even share of what the listed ones leave, and no more than its bound.
  get drawn() {
    if (this.bound === null) return this.values;
    this.filled ??= this.fill();
    return this.filled;
  }

  fill() {
    const { n, m, values } = this;
    const filled = Float32Array.from(values);
    const bounds = new Float32Array(m);
    for (let i = 0; i < n; i++) {
      let [left, free] = [1, 0];
      for (let j = 0; j < m; j++) {
        const value = values[i * m + j];
        const known = !Number.isNaN(value);
        bounds[j] = known ? -1 : this.bound(i, j);
        if (known) left -= value;
        else if (bounds[j] > NOTHING) free += 1;
      }
      const share = Math.max(0, left) / Math.max(1, free);
      for (let j = 0; j < m; j++) if (bounds[j] >= 0) filled[i * m + j] = bounds[j] > NOTHING ? Math.min(share, bounds[j]) : 0;
    }
    return filled;
  }

  // Whole words, as weights by words: what goes into the pieces of a word is summed, what comes from them is averaged.
  // queries, keys: the number of the word that each is a part of, from 0 on
  merged(queries, keys) {
    const [n, m] = [countWords(queries), countWords(keys)];
    const values = new Float32Array(n * m);
    const pieces = new Float32Array(n);
    for (const word of queries) pieces[word] += 1;
    const all = this.drawn;
    for (let i = 0; i < this.n; i++) {
      for (let j = 0; j < this.m; j++) values[queries[i] * m + keys[j]] += all[i * this.m + j] / pieces[queries[i]];
    }
    return Object.assign(new Weights(n, m, values, null), { estimated: this.bound !== null });
  }

  // [[place, weight], …] of one query or one key, largest first
  of(side, place, most) {
    const found = [];
    const count = side === "query" ? this.m : this.n;
    for (let k = 0; k < count; k++) {
      const value = this.values[side === "query" ? place * this.m + k : k * this.m + place];
      if (value > 0) found.push([k, value]);
    }
    return found.sort((a, b) => b[1] - a[1]).slice(0, most);
  }
}

function countWords(words) {
  return words.length ? words[words.length - 1] + 1 : 0;
}

function weightWords({ value, below }) {
  return value === undefined ? `below ${three(below)}` : three(value);
}
