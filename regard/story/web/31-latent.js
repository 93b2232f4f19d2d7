// The plane of codes: drag the point, and the decoder draws a face.

figures.latent = (element) => {
  const { codes, whose } = DATA.latent;
  const reach = 1.08 * Math.max(...codes.flat().map(Math.abs));
  const middles = GUESTS.map((_, g) => {
    const own = codes.filter((_, k) => whose[k] === g);
    return [0, 1].map((axis) => sum(own.map((code) => code[axis])) / own.length);
  });
  let code = [0, 0];
  const walk = { from: 4, to: 3 };
  const svg = makeSvg("svg", {
    viewBox: `${-reach} ${-reach} ${2 * reach} ${2 * reach}`,
    class: "plane latent",
    role: "group",
    "aria-label": "the plane of codes",
  });
  const unit = reach / 50;
  const dots = makeSvg("g", { "aria-hidden": "true" });
  const grip = makeSvg(
    "g",
    {},
    makeSvg("circle", { r: 9 * unit, class: "hit" }),
    makeSvg("circle", { r: 3 * unit, class: "tip" }),
  );
  svg.append(
    makeSvg(
      "g",
      { class: "cross", "aria-hidden": "true" },
      makeSvg("line", { x1: -reach, x2: reach, y1: 0, y2: 0 }),
      makeSvg("line", { x1: 0, x2: 0, y1: -reach, y2: reach }),
    ),
    dots,
    grip,
  );
  const face = picture("the face that the decoder draws", "large huge");
  const said = spoken();
  const draw = () => {
    paintInk(face, decode(LAYERS, code), dark() ? [231, 233, 236] : [26, 29, 34]);
    refill(
      dots,
      codes.map(([x, y], k) =>
        makeSvg("circle", { cx: x, cy: -y, r: 1.3 * unit, fill: css(colourOf(GUESTS[whose[k]])), "fill-opacity": 0.75 }),
      ),
    );
    grip.setAttribute("transform", `translate(${code[0]} ${-code[1]})`);
    const distances = codes.map(([x, y]) => Math.hypot(x - code[0], y - code[1]));
    const nearest = GUESTS[whose[distances.indexOf(Math.min(...distances))]];
    said.textContent = `Code (${two(code[0])}, ${two(code[1])}): nearest to portraits of the ${nearest.name}.`;
  };
  let say = () => {};
  const go = (wanted) => {
    code = wanted.map((x) => Math.min(reach, Math.max(-reach, x)));
    draw();
    say();
  };
  const slide = dial("walk", { low: 0, high: 1, step: 0.01, now: 0 }, (t) => step(t));
  const step = (t) => go([0, 1].map((axis) => (1 - t) * middles[walk.from][axis] + t * middles[walk.to][axis]));
  const slideTo = (t) => {
    const input = slide.querySelector("input");
    input.value = t;
    input.dispatchEvent(new Event("input"));
  };
  const guestPicker = (words, name) =>
    picker(
      words,
      GUESTS.map((guest, k) => [k, short(guest)]),
      walk[name],
      (k) => {
        walk[name] = Number(k);
        slideTo(name === "from" ? 0 : 1);
      },
    );
  const legend = make(
    "ul",
    { class: "who-is-who" },
    GUESTS.map((guest) => {
      const mark = make("span", { class: "swatch" });
      painted(() => {
        mark.style.background = css(colourOf(guest));
      });
      return make("li", {}, mark, short(guest));
    }),
  );
  refill(
    element,
    make("div", { class: "beside" }, svg, make("div", { class: "answers" }, face, legend)),
    controls(guestPicker("from the", "from"), guestPicker("to the", "to"), slide),
    said,
  );
  painted(draw);
  say = draggable(grip, {
    place: () => code,
    move: go,
    step: reach / 40,
    range: [-reach, reach],
    label: "the code",
    at: (event) => {
      const [x, y] = pointIn(svg, event);
      return [x, -y];
    },
    describe: () => said.textContent,
  });
};
