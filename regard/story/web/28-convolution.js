// A filter as a circulant matrix, and the square of shift and filter.

const LENGTH = 8;

// Numbers as bars around a line; with `changed`, each can be dragged.
function signal(label, changed = null) {
  const svg = makeSvg("svg", { viewBox: "0 0 160 58", class: "signal", role: changed ? "group" : "img", "aria-label": label });
  const zero = 37;
  const scale = 10;
  const ground = makeSvg("line", { x1: 0, x2: 160, y1: zero, y2: zero, class: "zero" });
  const bars = Array.from({ length: LENGTH }, (_, k) =>
    makeSvg("rect", { x: 20 * k + 3, width: 14, rx: 1.5, class: "number-bar" }),
  );
  svg.append(ground, ...bars);
  let values = new Array(LENGTH).fill(0);
  const set = (now) => {
    values = now;
    bars.forEach((bar, k) => {
      const size = Math.min(3.4, Math.max(-2, values[k]));
      bar.setAttribute("y", zero - Math.max(0, size) * scale);
      bar.setAttribute("height", Math.max(0.8, Math.abs(size) * scale));
    });
    if (!changed) svg.setAttribute("aria-label", `${label}: ${values.map(two).join(", ")}`);
  };
  if (changed) {
    bars.forEach((bar, k) => {
      const hit = makeSvg("rect", { x: 20 * k, width: 20, y: 0, height: 58, class: "hit" });
      svg.append(hit);
      const go = (value) => changed(k, Math.min(3, Math.max(-1, Math.round(10 * value) / 10)));
      draggable(hit, {
        place: () => [values[k], values[k]],
        step: 0.1,
        range: [-1, 3],
        label: `number ${k + 1} of the signal`,
        move: ([a, b]) => go(a + b - values[k]),
        at: (event) => [(zero - pointIn(svg, event)[1]) / scale, values[k]],
        describe: () => two(values[k]),
      });
    });
  }
  return { svg, set };
}

figures.convolution = (element) => {
  const x = [0.2, 0.6, 2.4, 1.2, 0.4, 0, -0.4, 0];
  const taps = [0.5, 1, -0.5];
  let by = 2;
  let broken = false;
  const matrix = matrixTable({ rows: x, columns: x, caption: "the matrix W", large: "square" });
  const given = signal("the signal x", (k, value) => {
    x[k] = value;
    draw();
  });
  const moved = signal("shifted first, then filtered: W S x");
  const filtered = signal("filtered first, then shifted: S W x");
  const said = spoken();
  const draw = () => {
    const w = circulant(taps, LENGTH);
    if (broken) w[5][1] = 1;
    const s = shiftMatrix(LENGTH, by);
    const [one, other] = [multiply(w, multiply(s, x)), multiply(s, multiply(w, x))];
    given.set(x);
    moved.set(one);
    filtered.set(other);
    matrix.set(w, {
      signed: true,
      most: 1.2,
      text: (value) => (value === 0 ? "" : value.toFixed(1).replace("-", "−")),
      marked: (i, j) => broken && i === 5 && j === 1,
    });
    const apart = Math.max(...one.map((value, k) => Math.abs(value - other[k])));
    said.textContent =
      apart < 1e-9
        ? "W S x = S W x: both ways give the same numbers."
        : `W S x ≠ S W x: the two ways differ by up to ${two(apart)}.`;
    said.classList.toggle("bad", apart >= 1e-9);
  };
  const knobs = ["left", "middle", "right"].map((name, t) =>
    dial(`filter, ${name}`, { low: -1, high: 1, step: 0.1, now: taps[t], text: (v) => v.toFixed(1).replace("-", "−") }, (v) => {
      taps[t] = v;
      draw();
    }),
  );
  const titled = (words, node) => make("div", {}, make("p", { class: "caption" }, words), node);
  refill(
    element,
    make(
      "div",
      { class: "beside" },
      make(
        "div",
        { class: "signals" },
        titled("the signal x: drag its bars", given.svg),
        titled("shift, then filter: W S x", moved.svg),
        titled("filter, then shift: S W x", filtered.svg),
      ),
      titled("the matrix W", matrix.element),
    ),
    controls(
      knobs,
      dial("shift by", { low: 0, high: LENGTH - 1, step: 1, now: by, text: (v) => String(v) }, (v) => {
        by = v;
        draw();
      }),
      toggle("Break one entry", false, (now) => {
        broken = now;
        draw();
      }),
    ),
    said,
  );
  painted(draw);
};
