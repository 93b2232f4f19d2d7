// Two clocks, one for the query and one for the key, and how the score falls with distance.

const CLOCK = 8; // channels: four hands
const LAST = 200; // place

// All pairs at angle 0: the score is then the sum of the cosines between hands.
const HANDS = Array.from({ length: CLOCK }, (_, k) => (k < CLOCK / 2 ? 1 : 0));
const rotaryScore = (m, n) => dot(rotate(HANDS, m), rotate(HANDS, n));

function clock(label, now, changed) {
  const svg = makeSvg("svg", { viewBox: "-50 -50 100 100", class: "clock" });
  const hands = makeSvg("g", {});
  const grip = makeSvg("g", {}, makeSvg("circle", { r: 48, class: "hit" }), hands);
  svg.append(
    makeSvg("circle", { r: 47, class: "face" }),
    ...Array.from({ length: 12 }, (_, k) =>
      makeSvg("line", { x1: 0, x2: 0, y1: -46, y2: -42, transform: `rotate(${30 * k})`, class: "hour" }),
    ),
    grip,
  );
  const draw = () => {
    const turned = rotate(HANDS, now());
    const lengths = [40, 32, 24, 16];
    refill(
      hands,
      lengths.map((length, i) =>
        makeSvg("line", { x1: 0, y1: 0, x2: length * turned[i], y2: -length * turned[i + CLOCK / 2], class: `hand hand-${i}` }),
      ),
      makeSvg("circle", { r: 2.4, class: "pin" }),
    );
  };
  let last = 0;
  const angleAt = (event) => {
    const [x, y] = pointIn(svg, event);
    return Math.atan2(-y, x);
  };
  const say = draggable(grip, {
    place: () => [now(), now()],
    step: 1,
    range: [0, LAST],
    label,
    move: ([a, b]) => changed(now() + (a - now()) + (b - now())),
    at: (event) => {
      const angle = angleAt(event);
      const by = Math.atan2(Math.sin(angle - last), Math.cos(angle - last)); // the shorter way around
      last = angle;
      return [now() + by, now()];
    },
    describe: () => `place ${two(now())}`,
  });
  grip.addEventListener("pointerdown", (event) => {
    last = angleAt(event);
  });
  return {
    svg,
    draw: () => {
      draw();
      say();
    },
  };
}

figures.rotary = (element) => {
  const places = { query: 6, key: 2 };
  const inside = (x) => Math.min(LAST, Math.max(0, x));
  const said = spoken();
  const captions = {};
  const clocks = Object.keys(places).map((name) => [
    name,
    clock(
      `place of the ${name}`,
      () => places[name],
      (x) => {
        places[name] = inside(x);
        draw();
      },
    ),
  ]);
  const marker = makeSvg("g", {});
  const { mean: average, low, high } = DATA.decay;
  const [width, height] = [graphWidth(), 190];
  const px = (n) => 34 + (n / (average.length - 1)) * (width - 44);
  const py = (score) => 10 + ((1 - score) / 1.5) * (height - 40);
  const path = (values) => values.map((value, n) => `${n ? "L" : "M"} ${px(n).toFixed(1)} ${py(value).toFixed(1)}`).join(" ");
  const back = (values) =>
    values
      .map((value, n) => `L ${px(n).toFixed(1)} ${py(value).toFixed(1)}`)
      .reverse()
      .join(" ");
  const plot = makeSvg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "graph", role: "img" },
    makeSvg("path", { d: `${path(high)} ${back(low)} Z`, class: "spread" }),
    makeSvg("line", { x1: px(0), x2: px(average.length - 1), y1: py(0), y2: py(0), class: "zero" }),
    makeSvg("path", { d: path(average), class: "curve" }),
    marker,
    [0, 50, 100, 150, 200].map((n) => makeSvg("text", { x: px(n), y: height - 4, "text-anchor": "middle" }, n)),
    [0, 0.5, 1].map((score) => makeSvg("text", { x: 28, y: py(score) + 4, "text-anchor": "end" }, score)),
  );
  plot.setAttribute(
    "aria-label",
    `how alike a random vector and itself, turned, are, by distance: ${two(average[1])} one place apart, ${two(average[50])} fifty apart, ${two(average[200])} two hundred apart, with waves`,
  );
  const draw = () => {
    clocks.forEach(([name, each]) => {
      each.draw();
      captions[name].textContent = `${name} at place ${places[name].toFixed(1)}`;
    });
    const apart = places.query - places.key;
    const nearest = Math.min(LAST, Math.round(Math.abs(apart)));
    refill(
      marker,
      makeSvg("line", { x1: px(nearest), x2: px(nearest), y1: 8, y2: height - 26, class: "mark-line" }),
      makeSvg("circle", { cx: px(nearest), cy: py(average[nearest]), r: 4.5, class: "mark-dot" }),
    );
    said.textContent = `${apart.toFixed(1).replace("-", "−")} places apart: the score is ${two(rotaryScore(places.query, places.key))} of ${CLOCK / 2}.`;
  };
  const slide = dial("distance", { low: 0, high: LAST, step: 1, now: 4, text: (x) => String(x) }, (x) => {
    places.key = Math.min(places.key, LAST - x);
    places.query = places.key + x;
    draw();
  });
  const walk = (by) => {
    const most = LAST - Math.max(places.query, places.key);
    const least = -Math.min(places.query, places.key);
    const step = Math.min(most, Math.max(least, by));
    places.query += step;
    places.key += step;
    draw();
  };
  refill(
    element,
    make(
      "div",
      { class: "clocks" },
      clocks.map(([name, each]) => {
        captions[name] = make("p", { class: "caption" });
        return make("div", {}, each.svg, captions[name]);
      }),
    ),
    controls(
      button("Both 1 place on", () => walk(1)),
      button("Both 10 places on", () => walk(10)),
      button("Both 10 back", () => walk(-10)),
      slide,
    ),
    said,
    make(
      "p",
      { class: "caption graph-title" },
      `A random vector of ${DATA.decay.channels} numbers and itself, so many places apart: how alike are they?`,
    ),
    plot,
  );
  draw();
};
