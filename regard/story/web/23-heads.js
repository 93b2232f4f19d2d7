// Guests at a round table: one asks, and each head draws lines to those it listens to.

figures.heads = (element) => {
  let asking = 3;
  let loud = 2;
  const svg = makeSvg("svg", { viewBox: "0 0 100 100", class: "round-table", role: "img" });
  const names = ["music", "science"];
  const ofHead = [MUSIC, SCIENCE];
  const table = make("div", { class: "two-heads" });
  const weightsOf = (head) => {
    const x = COMING.map((guest) => [loud * guest.token[head]]);
    return attentionWeights(x, x);
  };
  const at = (k, r) => {
    const turn = (2 * Math.PI * k) / COMING.length - Math.PI / 2;
    return [50 + r * Math.cos(turn), 50 + r * Math.sin(turn)];
  };
  const lines = makeSvg("g", {});
  svg.append(makeSvg("circle", { cx: 50, cy: 50, r: 24, class: "table-top" }), lines);
  const heads = names.map((name, head) => {
    const shares = bars(COMING, { label: `weights of the head that goes by ${name}` });
    const mark = make("span", { class: "swatch" });
    painted(() => {
      mark.style.background = css(colourOf(ofHead[head]));
    });
    table.append(make("div", {}, make("p", { class: "caption" }, mark, `the head that goes by ${name}`), shares.element));
    return shares;
  });
  const pick = choice(
    "who asks",
    COMING.map((guest, k) => [String(k), guest.name]),
    String(asking),
    (k) => {
      asking = Number(k);
      draw();
    },
  );
  const seats = COMING.map((guest, k) => {
    const [x, y] = at(k, 39);
    const image = makeSvg("image", { x: x - 9, y: y - 9, width: 18, height: 18, class: "seat" });
    const ring = makeSvg("circle", { cx: x, cy: y, r: 12.6, class: "seat-ring" });
    svg.append(ring, image);
    image.addEventListener("click", () => {
      pick.querySelectorAll("input")[k].click();
    });
    painted(() => {
      const canvas = make("canvas", {});
      paintPortrait(canvas, guest);
      image.setAttribute("href", canvas.toDataURL());
    });
    return ring;
  });
  const said = spoken();
  const draw = () => {
    const found = names.map((_, head) => weightsOf(head)[asking]);
    heads.forEach((shares, head) => shares.set(found[head]));
    const [x, y] = at(asking, 28);
    refill(
      lines,
      found.flatMap((weights, head) =>
        weights.map((weight, k) => {
          if (k === asking) return null;
          const [a, b] = at(k, 28);
          const bend = head ? 0.62 : 0.25; // the two heads take different ways through the middle
          const [cx, cy] = [50 + bend * ((x + a) / 2 - 50), 50 + bend * ((y + b) / 2 - 50)];
          return makeSvg("path", {
            d: `M ${x} ${y} Q ${cx} ${cy} ${a} ${b}`,
            fill: "none",
            stroke: css(colourOf(ofHead[head])),
            "stroke-width": 0.3 + 5 * weight,
            "stroke-opacity": 0.85,
            "stroke-linecap": "round",
          });
        }),
      ),
    );
    seats.forEach((ring, k) => ring.classList.toggle("asks", k === asking));
    const best = found.map((weights) => COMING[weights.indexOf(Math.max(...weights))].name);
    const words = `By music the ${COMING[asking].name} listens most to the ${best[0]}, by science to the ${best[1]}.`;
    said.textContent = words
      .replaceAll(`the ${COMING[asking].name}.`, "itself.")
      .replace(`to the ${COMING[asking].name},`, "to itself,");
    svg.setAttribute("aria-label", said.textContent);
  };
  refill(
    element,
    controls(pick),
    make("div", { class: "beside" }, svg, table),
    controls(
      dial("how loudly they ask", { low: 0, high: 5, step: 0.1, now: loud }, (x) => {
        loud = x;
        draw();
      }),
    ),
    said,
  );
  painted(draw);
};
