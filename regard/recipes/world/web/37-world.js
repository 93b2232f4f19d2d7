// An episode and what is imagined of it, unpacked; and curves over its steps, which are all pointed at together.

// what is open: who acts, the step from which it is imagined, the step that is looked at, and by which head
const worldShown = { kind: "taken", start: null, time: null, head: -1, focus: null };

const ROOM = { left: 46, right: 10, top: 8, bottom: 22 };

const inkReal = () => css(ofHead(dark() ? 4 : 0));
const inkImagined = () => css(ofHead(dark() ? 1 : 5));

// The numbers of the view `episode`, as functions of steps and of places in an observation.
async function unpackedEpisode(part) {
  const wide = part.numbers.length;
  const real = await unpackedFloats(part.real);
  const futures = await Promise.all(part.futures.map((future) => unpackedFuture(part, future)));
  const image = await imagesOf(part, part.images);
  const observation = (t) => withImage(Array.from({ length: wide }, (_, d) => real.numbers[t * wide + d]), image(t));
  return { observation, futures: new Map(futures.map((future) => [future.kind, future])) };
}

// The image of a number, if there are images.
async function imagesOf({ drawing }, packed) {
  if (!packed) return () => null;
  const [bytes, size] = [new Uint8Array(await unpackedOnce(packed)), drawing.side ** 2 * drawing.colours];
  return (k) => bytes.subarray(k * size, (k + 1) * size);
}

const withImage = (observation, image) => Object.assign(observation, { image });

async function unpackedFuture(part, future) {
  const [wide, horizon] = [part.numbers.length, part.horizon];
  const curves = fromHalves(await unpackedOnce(future.curves));  // starts × (horizon + 1) × wide × 3
  const [rewards, goesOn] = [await unpackedFloats(future.rewards), await unpackedFloats(future.goes_on)];
  const values = future.values ? await unpackedFloats(future.values) : null;
  const image = await imagesOf(part, future.images);
  // i: place of the start; k: steps after it; which: 0 for all heads together, 1 and 2 for the lowest and highest of them
  const at = (i, k, d, which = 0) => part.mean[d] + part.scale[d] * curves[((i * (horizon + 1) + k) * wide + d) * 3 + which];
  const found = {
    kind: future.kind,
    at,
    observation: (i, k) => withImage(Array.from({ length: wide }, (_, d) => at(i, k, d)), image(i * (horizon + 1) + k)),
    reward: (i, k) => rewards.numbers[i * horizon + k],
    goesOn: (i, k) => goesOn.numbers[i * horizon + k],
    value: values && ((i, k) => values.numbers[i * (horizon + 1) + k]),
    action: future.actions && ((i, k) => future.actions[i][k]),
  };
  // actions that were taken end with the episode; what nobody did goes on until the model says that it is over
  found.steps = (i) => {
    const there = future.kind === "policy" ? horizon : Math.min(horizon, part.count - part.starts[i]);
    return future.kind === "taken" ? there : stepsUntilEnd(found, i, there);
  };
  return found;
}

// Until it is likelier that the episode has ended than that it goes on.
function stepsUntilEnd({ goesOn }, i, most) {
  let likely = 1;
  for (let k = 0; k < most; k++) {
    likely *= goesOn(i, k);
    if (likely < 0.5) return k + 1;
  }
  return most;
}

// Few ticks, but two of them, or there is no scale.
function ticksUp(bottom, top) {
  const few = ticks(bottom, top, 3);
  return few.length > 1 ? few : ticks(bottom, top, 6);
}

// One plot of several that share their steps. lines: [{name, points: [[step, y], …], colour, dashed, dots}], bands: [{points: [[step, low, high], …], colour}]
// levels: [[y, words], …] where a number is a kind. Steps are as people count them. pointed(step) hears where the reader points; marks: steps at which a line stands.
function curvePlot(here, { name, lines, bands = [], reach: [left, right], marks = [], height = 132, said = three, least = null, levels = null, pointed }) {
  const known = lines.map((line) => ({ ...line, points: line.points.filter(([, y]) => Number.isFinite(y)) })).filter(({ points }) => points.length);
  const shaded = bands.map((band) => ({ ...band, points: band.points.filter(([, low, high]) => Number.isFinite(low) && Number.isFinite(high)) }));
  const [bottom, top] = least ?? rangeOf([...known, ...shaded.flatMap(({ points }) => (
    [{ points: points.map(([x, low]) => [x, low]) }, { points: points.map(([x, , high]) => [x, high]) }]))], false);
  const keys = make("div", { class: "keys" });
  const frame = make("div", { class: "plot", tabindex: "0", role: "application", "aria-roledescription": "plot", "aria-label": `${name} by step` });
  const element = make("div", { class: "world-curve" }, keys, frame);
  const hair = makeSvg("g", { class: "hair" });
  let [width, at] = [0, null];
  const across = (x) => ROOM.left + (width - ROOM.left - ROOM.right) * (right > left ? (x - left) / (right - left) : 0.5);
  const up = (y) => ROOM.top + (height - ROOM.top - ROOM.bottom) * (1 - (y - bottom) / (top - bottom));
  const path = (points) => points.map(([x, y], k) => `${k ? "L" : "M"}${across(x).toFixed(1)} ${up(y).toFixed(1)}`).join("");

  function paint() {
    if (!width) return;
    const foot = height - ROOM.bottom;
    const ys = levels ? levels.map(([y]) => y) : ticksUp(bottom, top);
    const xs = ticks(left, right, Math.max(2, Math.floor(width / 90))).filter(Number.isInteger);
    refill(frame, makeSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
      ys.map((y) => [makeSvg("line", { class: "grid", x1: ROOM.left, x2: width - ROOM.right, y1: up(y), y2: up(y) }),
        levels ? null : makeSvg("text", { class: "tick", x: ROOM.left - 6, y: up(y) + 4, "text-anchor": "end" }, tickText(y, ys))]),
      xs.map((x) => makeSvg("text", { class: "tick", x: across(x), y: foot + 16, "text-anchor": "middle" }, tickText(x, xs))),
      makeSvg("line", { class: "axis", x1: ROOM.left, x2: width - ROOM.right, y1: foot, y2: foot }),
      marks.map((x) => makeSvg("line", { class: "world-mark", x1: across(x), x2: across(x), y1: ROOM.top, y2: foot })),
      shaded.map(({ points, colour }) => makeSvg("path", { d: bandPath(points), fill: colour(), opacity: 0.22 })),
      known.map(paintLine),
      (levels ?? []).map(([y, words]) => makeSvg("text", { class: "tick world-level", x: 0, y: up(y) - 9 }, words)), hair));
    say();
  }

  function bandPath(points) {
    if (!points.length) return "";
    const back = [...points].reverse().map(([x, low]) => `L${across(x).toFixed(1)} ${up(low).toFixed(1)}`);
    return `${path(points.map(([x, , high]) => [x, high]))}${back.join("")}Z`;
  }

  // what lies under another line is wider, so that it is seen where both agree
  function paintLine({ points, colour, dashed, dots, under: wide }) {
    const line = { d: path(points), fill: "none", stroke: colour(), "stroke-width": levels ? 0 : wide ? 4 : 1.6, opacity: wide ? 0.55 : 1, "stroke-linejoin": "round", "stroke-dasharray": dashed ? "4 3" : null };
    return makeSvg("g", {}, makeSvg("path", line), dots || points.length === 1 ? points.map(([x, y]) => (
      makeSvg("circle", { cx: across(x), cy: up(y), r: wide ? 4 : 2.4, fill: colour(), opacity: wide ? 0.55 : 1 }))) : null);
  }

  function say() {
    const here_ = known.map((line) => [line, at === null ? null : line.points.find(([x]) => x === at) ?? null]);
    const spread = at === null ? null : shaded.flatMap(({ points }) => points).find(([x]) => x === at);
    refill(hair, at === null ? null : makeSvg("line", { x1: across(at), x2: across(at), y1: ROOM.top, y2: height - ROOM.bottom }),
      here_.map(([{ colour }, point]) => point && makeSvg("circle", { cx: across(point[0]), cy: up(point[1]), r: 4, fill: colour() })));
    refill(keys, make("span", { class: "axis-name" }, name), here_.map(([{ name: words, colour, dashed }, point]) => make("span", { class: "key" },
      make("span", { class: dashed ? "line dashed" : "line", style: `--colour: ${colour()}` }), words, point ? [" ", make("strong", {}, said(point[1]))] : null)),
    spread ? make("span", { class: "key" }, `heads from ${said(spread[1])} to ${said(spread[2])}`) : null);
  }

  const under = (event) => {
    const box = frame.getBoundingClientRect();
    const part = (event.clientX - box.left - ROOM.left) / (width - ROOM.left - ROOM.right);
    return Math.round(left + Math.min(1, Math.max(0, part)) * (right - left));
  };
  frame.addEventListener("pointermove", (event) => event.pointerType === "mouse" && event.buttons === 1 && pointed(under(event)));
  frame.addEventListener("click", (event) => pointed(under(event)));
  frame.addEventListener("keydown", (event) => {
    const step = steps(event);
    if (!step || step[1] === 0) return;
    event.preventDefault();
    pointed(Math.min(right, Math.max(left, (at ?? left) + step[1])));
  });
  here.sized(element, (next) => {
    width = next;
    paint();
  });
  here.painters.push(paint);
  return {
    element,
    mark(step) {
      at = step;
      if (width) say();
    },
  };
}

// A slider that says where it is. shown: its number in words
function stepSlider(words, { low, high, now, shown: written }, changed) {
  const output = make("output", {}, written(now));
  const input = make("input", { type: "range", min: low, max: high, step: 1, value: now, "aria-valuetext": written(now) });
  const put = (value) => {
    output.textContent = written(value);
    input.setAttribute("aria-valuetext", written(value));
  };
  input.addEventListener("input", () => {
    put(Number(input.value));
    changed(Number(input.value));
  });
  return {
    element: make("label", { class: "slider world-slider" }, make("span", {}, words), input, output),
    set(value) {
      input.value = value;
      put(value);
    },
  };
}

// An action in words: its kind, or its numbers.
function actionWords({ discrete, names }, action) {
  if (action === null || action === undefined) return "–";
  if (discrete) return shown(names[action]);
  return action.map((each, k) => `${names.length > 1 ? `${shown(names[k])} ` : ""}${three(each)}`).join(", ");
}
