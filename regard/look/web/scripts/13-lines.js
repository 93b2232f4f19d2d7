// Lines between tokens: queries on the left, keys on the right, a line as strong as its weight.

const STEP = 20;          // pixels of a token
const LINKS = 12;         // of each query, as long as nobody points at a token
const FAINTEST = 0.01;
const LONG = 64;          // more tokens do not fit beside each other
const NOWHERE = -1e6;     // of tokens that were not brought here

// told(side, place) hears which token the reader points at, told(null, null) that she left
function lines(here, { n, m, rows, columns, name, told, highest = 620 }) {
  const canvas = make("canvas");
  const tall = make("div", { class: "tall", style: `height: ${STEP * Math.max(n, m) + 8}px` }, canvas);
  const box = make("div", {
    class: "links", tabindex: "0", role: "application", "aria-roledescription": "lines between tokens", "aria-label": name,
  }, tall);
  const heading = make("div", { class: "axes lines-axes" }, make("span", {}, "queries"), make("span", {}, "keys"));
  const element = make("div", { class: "lines" }, heading, box);
  const sides = { query: { labels: rows, count: n }, key: { labels: columns, count: m } };
  const height = Math.min(highest, STEP * Math.max(n, m) + 8);
  const scrolls = height < STEP * Math.max(n, m);
  let [weights, change, links] = [null, null, []];   // links: [query, key, weight], weakest first
  let [width, room] = [0, 0];                        // room: pixels of a column of labels
  let [side, place, pinned] = [null, null, null];    // what is pointed at
  let listed = null;                                 // tokens of the other side, when they would lie too far away

  function arrange() {
    box.style.height = `${height}px`;
    width = box.clientWidth;
    room = Math.min(36 + gutter([...rows, ...columns], 130), width * 0.36);  // 36: the figure beside a label
    element.style.setProperty("--room", `${room}px`);
    sharpen(canvas, width, height);
    paint();
  }

  // where token k of a side is seen
  function y(k, of) {
    const row = listed && of !== side ? listed.indexOf(k) : k;
    const scrolled = listed && of !== side ? 0 : box.scrollTop;
    return row < 0 ? NOWHERE : 4 + (row + 0.5) * STEP - scrolled;
  }

  // Pointing at one token of a long text brings those to it that it is linked with.
  function listOthers() {
    if (!scrolls || side === null) listed = null;
    else listed = weights.of(side, place, Math.floor(height / STEP) - 1).map(([other]) => other).sort((a, b) => a - b);
  }

  function visible() {
    if (side === null) return links;
    const others = weights.of(side, place, Infinity);
    return others.map(([other, weight]) => (side === "query" ? [place, other, weight] : [other, place, weight])).reverse();
  }

  function paint() {
    if (!width || !weights) return;
    const context = sharpened(canvas);
    context.clearRect(0, 0, width, height);
    paintLinks(context);
    context.font = tokenFont(12);
    context.textBaseline = "middle";
    const colours = { ink: getComputedStyle(element).color, muted: getComputedStyle(heading).color };
    paintLabels(context, "query", colours);
    paintLabels(context, "key", colours);
  }

  function paintLinks(context) {
    const [from, to] = [room + 4, width - room - 4];
    const bend = (to - from) * 0.42;
    const colour = css(lineColour());
    const near = (at) => at > -STEP && at < height + STEP;
    context.lineCap = "round";
    for (const [i, j, weight] of visible()) {
      const [a, b] = [y(i, "query"), y(j, "key")];
      if (scrolls && !(near(a) && near(b))) continue;  // of a long text, lines that can be followed
      const amount = change ? change(i, j) : weight;
      context.strokeStyle = change ? css(diverging(Math.sign(amount))) : colour;
      context.globalAlpha = Math.min(1, Math.abs(amount) ** 0.75 + 0.02);
      context.lineWidth = 0.8 + 2.2 * Math.abs(amount);
      context.beginPath();
      context.moveTo(from, a);
      context.bezierCurveTo(from + bend, a, to - bend, b, to, b);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  function paintLabels(context, of, { ink, muted }) {
    const { labels, count } = sides[of];
    const left = of === "query";
    const other = side !== null && side !== of;
    const received = other ? new Map(weights.of(side, place, Infinity)) : null;
    const shade = (k, alpha) => {
      context.fillStyle = css(lineColour(), alpha);
      context.fillRect(left ? 2 : width - room, y(k, of) - STEP / 2 + 1, room - 2, STEP - 2);
    };
    const first = Math.max(0, Math.floor(box.scrollTop / STEP) - 1);
    const fit = Math.min(count - first, Math.ceil(height / STEP) + 2);
    const seen = other && listed ? listed : Array.from({ length: fit }, (_, k) => first + k);
    for (const k of seen) {
      const strong = side === of && k === place;
      const weight = received?.get(k) ?? 0;
      if (strong) shade(k, 0.3);
      if (weight > 0) shade(k, Math.min(0.5, 0.6 * Math.sqrt(weight)));
      const figure = weight >= 0.005 ? weight.toFixed(2).replace(/^0/, "") : "";
      context.fillStyle = side === null || strong || weight >= FAINTEST ? ink : muted;
      context.textAlign = left ? "right" : "left";
      const text = clipped(labels[k], 22);
      context.fillText(fitted(context, text, room - 12 - (figure ? 28 : 0)), left ? room - 4 : width - room + 4, y(k, of));
      context.textAlign = left ? "left" : "right";
      if (figure) context.fillText(figure, left ? 6 : width - 4, y(k, of));
    }
  }

  function point(nextSide, nextPlace) {
    if (side === nextSide && place === nextPlace) return;
    [side, place] = [nextSide, nextPlace];
    if (weights) listOthers();
    paint();
    told(side, place);
  }

  const home = () => point(...(pinned ?? [null, null]));

  function under(event) {
    const area = box.getBoundingClientRect();
    const of = event.clientX - area.left < width / 2 ? "query" : "key";
    const brought = listed && of !== side;
    const k = Math.floor((event.clientY - area.top + (brought ? 0 : box.scrollTop) - 4) / STEP);
    const count = brought ? listed.length : sides[of].count;
    if (k < 0 || k >= count) return [null, null];
    return [of, brought ? listed[k] : k];
  }

  box.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse") return;
    const next = under(event);
    if (listed && next[0] !== null && next[0] !== side) return;  // tokens that were brought here stay until one is clicked
    point(...next);
  });
  box.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && home());
  box.addEventListener("click", (event) => {
    const next = under(event);
    const again = pinned && pinned[0] === next[0] && pinned[1] === next[1];
    pinned = next[0] === null || again ? null : next;
    home();
    if (pinned) bringIntoView(pinned[1]);
  });
  box.addEventListener("scroll", paint);
  box.addEventListener("keydown", (event) => {
    const far = event.shiftKey ? 10 : 1;
    const step = { ArrowUp: -far, ArrowDown: far, Home: -Infinity, End: Infinity, ArrowLeft: 0, ArrowRight: 0 }[event.key];
    if (step === undefined && event.key !== "Escape") return;
    event.preventDefault();
    const of = { ArrowLeft: "query", ArrowRight: "key" }[event.key] ?? side ?? "query";
    const next = side === null ? 0 : Math.min(sides[of].count - 1, Math.max(0, place + step));
    pinned = event.key === "Escape" ? null : [of, next];
    home();
    if (pinned) bringIntoView(next);
  });

  function bringIntoView(k) {
    const at = 4 + (k + 0.5) * STEP;
    if (at - STEP < box.scrollTop || at + STEP > box.scrollTop + height) box.scrollTop = at - height / 2;
  }

  here.sized(element, arrange);
  here.painters.push(paint);

  return {
    element,
    // difference(i, j): what has changed; null when nothing is compared
    show(next, difference) {
      [weights, change, links] = [next, difference, []];
      for (let i = 0; i < n; i++) {
        for (const [j, weight] of weights.of("query", i, LINKS)) if (weight >= FAINTEST) links.push([i, j, weight]);
      }
      links.sort((a, b) => a[2] - b[2]);
      paint();
    },
    // what somebody points at elsewhere
    mark(nextSide, nextPlace) {
      [side, place] = nextSide === null ? pinned ?? [null, null] : [nextSide, nextPlace];
      listOthers();
      if (nextSide !== null) bringIntoView(place);
      paint();
    },
  };
}

function lineColour() {
  return sequential(dark() ? 0.78 : 0.72);
}

function fitted(context, text, space) {
  let short = text;
  while (short.length > 1 && context.measureText(short).width > space) short = `${[...short].slice(0, -2).join("")}…`;
  return short;
}

// As many pixels as the screen has, measured in those of the page.
function sharpen(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
}

function sharpened(canvas) {
  const ratio = devicePixelRatio || 1;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
