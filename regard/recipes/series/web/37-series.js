// Curves over the times of a series, which are all pointed at together: past, forecast, bands.

const SERIES_ROOM = { left: 52, right: 12, top: 10, bottom: 24 };

const inkPast = () => css(ofHead(dark() ? 4 : 0));
const inkAhead = () => css(ofHead(dark() ? 1 : 5));

// {"shape", "numbers"} with null where something is missing -> a function of its places
function seriesNumbers({ shape, numbers }) {
  const at = (...places) => numbers[places.reduce((sum, place, k) => sum * shape[k] + place, 0)];
  return at;
}

// Runs of points without a hole in them.
function unbroken(points) {
  const runs = [[]];
  for (const point of points) {
    if (point.every(Number.isFinite)) runs[runs.length - 1].push(point);
    else if (runs[runs.length - 1].length) runs.push([]);
  }
  return runs.filter((run) => run.length);
}

// One plot of several that share their times. lines: [{name, points: [[place, y | null], …], colour, dashed, dots, width}],
// bands: [{points: [[place, low, high], …], colour, opacity}], bars: the same as lines, from 0 up or down.
// times(place) says a place in words; pointed(place) hears where a reader points; marks: places at which a line stands.
function seriesPlot(here, { name, lines = [], bands = [], bars = [], places, times, marks = [], height = 190, said = three, foot: named = true, pointed }) {
  const [left, right] = [places[0], places[places.length - 1]];
  const finite = (list) => list.map((each) => ({ points: each.points.filter((point) => point.every(Number.isFinite)) })).filter(({ points }) => points.length);
  const edges = bands.flatMap(({ points }) => [{ points: points.map(([x, low]) => [x, low]) }, { points: points.map(([x, , high]) => [x, high]) }]);
  const zero = bars.length ? [{ points: [[left, 0]] }] : [];
  const [bottom, top] = rangeOf(finite([...lines, ...edges, ...bars, ...zero]), false);
  const keys = make("div", { class: "keys" });
  const frame = make("div", { class: "plot", tabindex: "0", role: "application", "aria-roledescription": "plot", "aria-label": `${name} over time` });
  const element = make("div", { class: "series-curve" }, keys, frame);
  const hair = makeSvg("g", { class: "hair" });
  let [width, at] = [0, null];
  const across = (x) => SERIES_ROOM.left + (width - SERIES_ROOM.left - SERIES_ROOM.right) * (right > left ? (x - left) / (right - left) : 0.5);
  const up = (y) => SERIES_ROOM.top + (height - SERIES_ROOM.top - SERIES_ROOM.bottom) * (1 - (y - bottom) / (top - bottom));
  const path = (points) => points.map(([x, y], k) => `${k ? "L" : "M"}${across(x).toFixed(1)} ${up(y).toFixed(1)}`).join("");

  function paint() {
    if (!width) return;
    const foot = height - SERIES_ROOM.bottom;
    const ys = ticks(bottom, top, 4);
    const many = Math.max(1, Math.floor((width - SERIES_ROOM.left) / 190));
    const shownPlaces = Array.from({ length: many + 1 }, (_, k) => places[Math.round((k / many) * (places.length - 1))]);
    refill(frame, makeSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
      ys.map((y) => [makeSvg("line", { class: "grid", x1: SERIES_ROOM.left, x2: width - SERIES_ROOM.right, y1: up(y), y2: up(y) }),
        makeSvg("text", { class: "tick", x: SERIES_ROOM.left - 6, y: up(y) + 4, "text-anchor": "end" }, tickText(y, ys))]),
      named ? shownPlaces.map((x, k) => makeSvg("text", { class: "tick", x: across(x), y: foot + 16, "text-anchor": k === 0 ? "start" : k === many ? "end" : "middle" }, times(x))) : null,
      makeSvg("line", { class: "axis", x1: SERIES_ROOM.left, x2: width - SERIES_ROOM.right, y1: bars.length ? up(0) : foot, y2: bars.length ? up(0) : foot }),
      marks.map((x) => makeSvg("line", { class: "series-mark", x1: across(x), x2: across(x), y1: SERIES_ROOM.top, y2: foot })),
      bands.map(({ points, colour, opacity }) => unbroken(points).map((run) => makeSvg("path", { d: bandPath(run), fill: colour(), opacity }))),
      bars.map(({ points, colour }) => makeSvg("path", { d: points.map(([x, y]) => `M${across(x).toFixed(1)} ${up(0).toFixed(1)}V${up(y).toFixed(1)}`).join(""), stroke: colour(), "stroke-width": Math.max(1, 0.8 * (width - SERIES_ROOM.left) / places.length), fill: "none" })),
      lines.map(paintLine), hair));
    say();
  }

  function bandPath(points) {
    const half = points.length > 1 ? 0 : 2;
    const back = [...points].reverse().map(([x, low]) => `L${(across(x) + half).toFixed(1)} ${up(low).toFixed(1)}`);
    const there = points.map(([x, , high], k) => `${k ? "L" : "M"}${(across(x) - half).toFixed(1)} ${up(high).toFixed(1)}`);
    return `${there.join("")}${back.join("")}Z`;
  }

  function paintLine({ points, colour, dashed, dots, width: stroke = 1.6 }) {
    return unbroken(points).map((run) => makeSvg("g", {},
      makeSvg("path", { d: path(run), fill: "none", stroke: colour(), "stroke-width": stroke, "stroke-linejoin": "round", "stroke-dasharray": dashed ? "5 4" : null }),
      dots || run.length === 1 ? run.map(([x, y]) => makeSvg("circle", { cx: across(x), cy: up(y), r: 2.6, fill: colour() })) : null));
  }

  function say() {
    const found = [...lines, ...bars].map((line) => [line, at === null ? null : line.points.find(([x, y]) => x === at && Number.isFinite(y)) ?? null]);
    const within = at === null ? [] : bands.map((band) => [band, band.points.find(([x, low]) => x === at && Number.isFinite(low))]).filter(([, point]) => point);
    refill(hair, at === null ? null : makeSvg("line", { x1: across(at), x2: across(at), y1: SERIES_ROOM.top, y2: height - SERIES_ROOM.bottom }),
      found.map(([{ colour }, point]) => point && makeSvg("circle", { cx: across(point[0]), cy: up(point[1]), r: 4, fill: colour() })));
    refill(keys, make("span", { class: "axis-name" }, name), found.filter(([line, point]) => line.name || point).map(([{ name: words, colour, dashed }, point]) => make("span", { class: "key" },
      make("span", { class: dashed ? "line dashed" : "line", style: `--colour: ${colour()}` }), words, point ? [" ", make("strong", {}, said(point[1]))] : null)),
    within.map(([{ name: words }, [, low, high]]) => make("span", { class: "key" }, `${words} ${said(low)} … ${said(high)}`)));
  }

  const under = (event) => {
    const box = frame.getBoundingClientRect();
    const part = (event.clientX - box.left - SERIES_ROOM.left) / (width - SERIES_ROOM.left - SERIES_ROOM.right);
    return places[placeOf(places, left + Math.min(1, Math.max(0, part)) * (right - left))];
  };
  frame.addEventListener("pointermove", (event) => event.pointerType === "mouse" && pointed(under(event)));
  frame.addEventListener("click", (event) => pointed(under(event), true));
  frame.addEventListener("keydown", (event) => {
    const step = steps(event);
    if (!step || step[1] === 0) return;
    event.preventDefault();
    const now = at === null ? places.length - 1 : places.indexOf(at);
    pointed(places[Math.min(places.length - 1, Math.max(0, now + step[1]))], true);
  });
  here.sized(element, (next) => {
    width = next;
    paint();
  });
  here.painters.push(paint);
  return {
    element,
    mark(place) {
      at = place;
      if (width) say();
    },
  };
}
