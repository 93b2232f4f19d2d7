// Keys in the plane of music and science, and a query that is dragged.

const REACH = 5; // of the plane, in lengths of a query: keys are drawn KEY times as far from the middle
const LOWEST = -3.4; // science of a query
const KEY = 4.2;

// A name beside a point, on the side where there is room.
function label(x, y, words, above) {
  if (above) return makeSvg("text", { x: x + 0.3, y: y - 0.6, "text-anchor": x > 1.5 ? "end" : "start" }, words);
  if (x > 3) return makeSvg("text", { x: Math.min(x, 4.2), y: y + 0.95, "text-anchor": "middle" }, words);
  return makeSvg("text", { x: x + (x < 0 ? -0.55 : 0.55), y: y + 0.22, "text-anchor": x < 0 ? "end" : "start" }, words);
}

figures.keys = (element) => {
  let asked = 0;
  let query = QUERIES[0].direction.map((x) => 4 * x);
  let six = false;
  let angle = 45;
  const sixthKey = () => [Math.cos((angle * Math.PI) / 180), Math.sin((angle * Math.PI) / 180)];
  const guestsNow = () => (six ? GUESTS : COMING);
  const keyOf = (guest) => (guest === SIXTH ? sixthKey() : guest.token);
  const svg = makeSvg("svg", {
    viewBox: "-5.2 -5.4 10.6 9.2",
    class: "plane",
    role: "group",
    "aria-label": "keys of the guests and your query, by music and science",
  });
  const lines = makeSvg("g", {});
  const dots = makeSvg("g", { "aria-hidden": "true" });
  const arrow = makeSvg("g", {});
  const tip = makeSvg("circle", { r: 0.42, class: "tip" });
  const hit = makeSvg("circle", { r: 1.3, class: "hit" });
  const grip = makeSvg("g", {}, hit, tip);
  svg.append(
    makeSvg(
      "g",
      { class: "cross", "aria-hidden": "true" },
      makeSvg("line", { x1: -5, x2: 5.2, y1: 0, y2: 0 }),
      makeSvg("line", { x1: 0, x2: 0, y1: 3.6, y2: -5.2 }),
      makeSvg("text", { x: 5.2, y: -0.25, "text-anchor": "end" }, "music →"),
      makeSvg("text", { x: 0.35, y: -5.1 }, "science ↑"),
    ),
    lines,
    dots,
    arrow,
    grip,
  );
  const shares = bars(GUESTS, { label: "weights of the guests" });
  const answer = picture("the answer: the portraits, blended by their weights", "large");
  const said = spoken();
  const pick = questions(asked, (k) => {
    asked = k;
    go(QUERIES[k].direction.map((x) => 4 * x));
  });
  const slide = dial(
    "the sixth guest: music against science",
    { low: 0, high: 90, step: 1, now: angle, text: (x) => `${Math.round(100 * Math.cos((x * Math.PI) / 180) ** 2)}% music` },
    (x) => {
      angle = x;
      draw();
    },
  );
  slide.hidden = true;
  const joins = toggle("A sixth guest comes", false, (now) => {
    six = now;
    slide.hidden = !now;
    draw();
  });
  const draw = () => {
    const guests = guestsNow();
    const keys = guests.map(keyOf);
    const [weights] = attentionWeights([query], keys);
    shares.set(weights);
    paintBlend(answer, weights, guests);
    const [x, y] = [query[0], -query[1]];
    refill(
      lines,
      guests.map((guest, k) =>
        makeSvg("line", {
          x1: 0,
          y1: 0,
          x2: KEY * keys[k][0],
          y2: -KEY * keys[k][1],
          stroke: css(colourOf(guest)),
          "stroke-width": 0.05 + 0.5 * weights[k],
          "stroke-opacity": 0.35 + 0.6 * weights[k],
          "stroke-linecap": "round",
        }),
      ),
    );
    refill(
      dots,
      guests.map((guest, k) =>
        makeSvg(
          "g",
          {},
          makeSvg("circle", { cx: KEY * keys[k][0], cy: -KEY * keys[k][1], r: 0.34, fill: css(colourOf(guest)) }),
          label(KEY * keys[k][0], -KEY * keys[k][1], short(guest), guest === SIXTH),
        ),
      ),
    );
    refill(arrow, makeSvg("line", { x1: 0, y1: 0, x2: x, y2: y, class: "query-line" }));
    grip.setAttribute("transform", `translate(${x} ${y})`);
    const best = weights.indexOf(Math.max(...weights));
    said.textContent = `You would listen most to the ${guests[best].name}, with ${percent(weights[best])} of your attention.`;
  };
  let say = () => {};
  const go = (wanted) => {
    const size = Math.hypot(...wanted);
    query = size > REACH ? wanted.map((x) => (x * REACH) / size) : wanted;
    query[1] = Math.max(LOWEST, query[1]);
    draw();
    say();
  };
  refill(
    element,
    controls(pick),
    make(
      "div",
      { class: "beside" },
      svg,
      make(
        "div",
        { class: "answers" },
        shares.element,
        make("div", { class: "remembered" }, make("p", { class: "caption" }, "the answer"), answer),
      ),
    ),
    controls(joins, slide),
    said,
  );
  painted(draw);
  say = draggable(grip, {
    place: () => query,
    move: go,
    step: 0.25,
    range: [-REACH, REACH],
    label: "your query",
    at: (event) => {
      const [x, y] = pointIn(svg, event);
      return [x, -y];
    },
    describe: () => `music ${two(query[0])}, science ${two(query[1])}`,
  });
};
