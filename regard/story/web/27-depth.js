// What reaches the bottom: the same portrait through so many layers, in four ways.

figures.depth = (element) => {
  const ways = DATA.depth.map((way) => ({ ...way, bytes: bytesOf(way.images) }));
  const last = ways[0].sizes.length - 1;
  let depth = 4;
  const said = spoken();
  const line = (k) => css(ofHead([1, 4, 0, 2][k]));
  const cards = ways.map((way, k) => {
    const canvas = picture("");
    const mark = make("span", { class: "swatch" });
    const facts = make("p", { class: "facts" });
    return {
      canvas,
      mark,
      facts,
      card: make("div", { class: "way" }, canvas, make("p", { class: "caption" }, mark, way.words), facts),
    };
  });
  const [width, height] = [graphWidth(), 200];
  const px = (k) => 46 + (k / last) * (width - 60);
  const low = -20;
  const py = (x) => 12 + ((1 - Math.max(low, Math.log10(x))) / (1 - low)) * (height - 44);
  const lines = makeSvg("g", {});
  const marker = makeSvg("g", {});
  const plot = makeSvg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "graph", role: "img" },
    lines,
    marker,
    [0, 8, 16, 24, 32].map((k) => makeSvg("text", { x: px(k), y: height - 4, "text-anchor": "middle" }, k)),
    [0, -10, -20].map((power) =>
      makeSvg(
        "text",
        { x: 40, y: py(10 ** power) + 4, "text-anchor": "end" },
        power ? tens(10 ** power, 1).replace("1·", "") : "1",
      ),
    ),
  );
  const draw = () => {
    ways.forEach((way, k) => {
      const values = Array.from(way.bytes.subarray(depth * SIDE * SIDE, (depth + 1) * SIDE * SIDE), (x) => (x - 128) / 127);
      const [ground, ink] = [paper(), colourOf(SCIENCE)];
      const rgb = values.flatMap((x) => {
        const t = Math.min(1, Math.max(0, 0.25 + 0.75 * x));
        return ground.map((c, i) => c + t * (ink[i] - c));
      });
      paintRgb(cards[k].canvas, SIDE, rgb);
      cards[k].canvas.setAttribute("aria-label", `${way.words}: what is left of the portrait after ${depth} layers`);
      cards[k].mark.style.background = line(k);
      refill(
        cards[k].facts,
        `likeness ${two(way.likeness[depth])}`,
        make("br"),
        `size ${three(way.sizes[depth])}`,
        make("br"),
        `gradient ${three(way.gradients[depth])}`,
      );
    });
    refill(
      lines,
      ways.map((way, k) =>
        makeSvg("path", {
          d: way.gradients.map((x, i) => `${i ? "L" : "M"} ${px(i).toFixed(1)} ${py(x).toFixed(1)}`).join(" "),
          class: "curve",
          style: `stroke: ${line(k)}`,
        }),
      ),
    );
    refill(
      marker,
      makeSvg("line", { x1: px(depth), x2: px(depth), y1: 10, y2: height - 30, class: "mark-line" }),
      ways.map((way, k) => makeSvg("circle", { cx: px(depth), cy: py(way.gradients[depth]), r: 4, fill: line(k) })),
    );
    const words = ways.map((way) => `${way.words} ${three(way.gradients[depth])}`).join(", ");
    plot.setAttribute("aria-label", `the gradient that reaches the first layer from layer ${depth}: ${words}`);
    said.textContent =
      depth === 0
        ? "No layer yet: the portrait itself."
        : `After ${depth} ${depth === 1 ? "layer" : "layers"}: plain layers keep a likeness of ${two(ways[0].likeness[depth])}, residual ones of ${two(ways[2].likeness[depth])}.`;
  };
  refill(
    element,
    controls(
      dial("layers", { low: 0, high: last, step: 1, now: depth, text: (x) => String(x) }, (x) => {
        depth = x;
        draw();
      }),
    ),
    make(
      "div",
      { class: "ways" },
      cards.map((each) => each.card),
    ),
    said,
    make(
      "p",
      { class: "caption graph-title" },
      "The gradient that comes back to the first portrait, by depth (each step is ten powers of ten)",
    ),
    plot,
  );
  painted(draw);
};
