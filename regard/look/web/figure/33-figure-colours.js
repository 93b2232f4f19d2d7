// What the things of a figure can be coloured by: a few learned vectors that look at them, each other, groups, or one number for
// each. Where `many` is true, the strongest of a few gives its colour.

// The sources of a figure, as they stand in its picker.
function figureSources(part) {
  return [...part.layers.map((layer) => new LayerSource(layer)), ...part.groups.map((groups) => new GroupSource(groups)),
    ...part.measures.map((measure) => new MeasureSource(measure))];
}

class LayerSource {
  constructor(layer) {
    this.layer = layer;
    this.title = `${nth(layer.layer)} · ${layer.title}`;
    this.sentence = layer.sentence;
    this.proved = layer.proved;
    this.heads = layer.heads;
  }

  get many() {
    return this.layer.kind !== "among";
  }

  // heads × count × points
  async load(shown) {
    const { weights, scale, heads, count } = this.layer;
    const halves = this.proved ? fromHalves(await unpacked(weights)) : new Float32Array(heads.length * count * shown);
    this.values = halves.map((value) => value * scale);
    this.shown = shown;
  }

  // what one of the few has to do with each point, in one head or in the mean of all
  of(few, head) {
    const { values, shown, layer: { count, heads } } = this;
    const part = (place) => values.subarray((place * count + few) * shown, (place * count + few + 1) * shown);
    if (head !== MEAN) return part(head);
    const sum = new Float32Array(shown);
    for (let place = 0; place < heads.length; place++) part(place).forEach((value, k) => { sum[k] += value / heads.length; });
    return sum;
  }

  called(few) {
    return `${this.layer.what} ${nth(few)}`;
  }
}

class GroupSource {
  constructor(groups) {
    this.groups = groups;
    [this.title, this.sentence, this.proved, this.heads, this.many] = [groups.name, "", true, [], false];
  }

  async load(shown) {
    const bytes = await unpacked(this.groups.of);
    this.values = new Int32Array(bytes.buffer, bytes.byteOffset, shown);
  }
}

class MeasureSource {
  constructor(measure) {
    this.measure = measure;
    [this.title, this.sentence, this.proved, this.heads, this.many] = [measure.name, measure.sentence, true, [], false];
  }

  async load(shown) {
    const bytes = await unpacked(this.measure.values);
    this.values = new Float32Array(bytes.buffer, bytes.byteOffset, shown);
  }

  of() {
    return this.values;
  }
}

// What a thing looks at: the listed weights of its row, in one head or in the mean of all; 0 for what is not listed.
async function rowOf(layer, head, row) {
  const { n, m, heads, largest: { count } } = layer;
  const { columns, weights } = await listsOf(layer);
  const places = head === MEAN ? heads.map((_, k) => k) : [head];
  const found = new Float32Array(m);
  for (const place of places) {
    for (let k = 0; k < count; k++) {
      const entry = (place * n + row) * count + k;
      if (columns[entry] !== 65535) found[columns[entry]] += weights[entry] / places.length;
    }
  }
  return found;
}
