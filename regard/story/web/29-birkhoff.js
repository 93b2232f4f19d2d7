// The triangle between three permutations: a point in it is a doubly stochastic matrix.

const CORNERS = [
  [50, 8],
  [92, 80],
  [8, 80],
];

figures.birkhoff = (element) => {
  let point = [0.6, 0.3, 0.1]; // shares of the three corners
  let loud = 1;
  const matrices = ROTATIONS.map(permutationMatrix);
  const table = matrixTable({
    rows: ROTATIONS,
    columns: ROTATIONS,
    caption: "the doubly stochastic matrix D",
    large: "by-three",
  });
  const svg = makeSvg("svg", {
    viewBox: "0 0 100 94",
    class: "triangle",
    role: "group",
    "aria-label": "the triangle of three permutations",
  });
  const grip = makeSvg("g", {}, makeSvg("circle", { r: 9, class: "hit" }), makeSvg("circle", { r: 2.8, class: "tip" }));
  const trail = makeSvg("path", { class: "trail" });
  const orders = ["123", "231", "312"];
  svg.append(
    makeSvg("path", { d: `M ${CORNERS.map((corner) => corner.join(" ")).join(" L ")} Z`, class: "triangle-face" }),
    trail,
    ...CORNERS.map(([x, y], k) =>
      makeSvg(
        "g",
        {},
        makeSvg("circle", { cx: x, cy: y, r: 1.6, class: "corner" }),
        makeSvg("text", { x, y: k ? y + 7 : y - 3.4, "text-anchor": "middle" }, orders[k]),
      ),
    ),
    grip,
  );
  const three3 = COMING.slice(0, 3);
  const seats = three3.map((_, k) => picture(`seat ${k + 1}`));
  const said = spoken();
  const at = (shares) => [0, 1].map((axis) => sum(shares.map((share, k) => share * CORNERS[k][axis])));
  const louder = (times) =>
    sinkhorn(
      mean(point, matrices).map((row) => row.map((x) => Math.log(Math.max(x, 1e-9)))),
      1 / Math.max(times, 1e-6),
      40,
    );
  const sharesOf = (matrix) => [matrix[0][0], matrix[0][1], matrix[0][2]];
  const draw = () => {
    const d = louder(loud);
    table.set(d);
    seats.forEach((canvas, i) => {
      paintBlend(canvas, d[i], three3);
      canvas.setAttribute(
        "aria-label",
        `seat ${i + 1}: ${three3.map((guest, j) => `${guest.name} ${two(d[i][j])}`).join(", ")}`,
      );
    });
    const shares = sharesOf(d);
    const [x, y] = at(shares);
    grip.setAttribute("transform", `translate(${x} ${y})`);
    trail.setAttribute(
      "d",
      [0, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12]
        .map(
          (times, k) =>
            `${k ? "L" : "M"} ${at(sharesOf(louder(times)))
              .map((v) => v.toFixed(2))
              .join(" ")}`,
        )
        .join(" "),
    );
    said.textContent = `D is ${two(shares[0])} of the order 123, ${two(shares[1])} of 231 and ${two(shares[2])} of 312. Every row and column sums to 1.`;
  };
  const inside = (shares) => {
    const kept = shares.map((share) => Math.max(0, share));
    const total = sum(kept);
    return kept.map((share) => share / total);
  };
  const [a, b, c] = CORNERS;
  const area = (b[1] - c[1]) * (a[0] - c[0]) + (c[0] - b[0]) * (a[1] - c[1]);
  const sharesAt = ([x, y]) => {
    const first = ((b[1] - c[1]) * (x - c[0]) + (c[0] - b[0]) * (y - c[1])) / area;
    const second = ((c[1] - a[1]) * (x - c[0]) + (a[0] - c[0]) * (y - c[1])) / area;
    return inside([first, second, 1 - first - second]);
  };
  const slide = dial("scores, times", { low: 0, high: 12, step: 0.1, now: loud, text: (x) => x.toFixed(1) }, (x) => {
    loud = x;
    draw();
    say();
  });
  const reset = () => {
    loud = 1;
    slide.querySelector("input").value = 1;
    slide.querySelector("output").textContent = "1.0";
  };
  let say = () => {};
  const place = () => {
    const [x, y] = at(sharesOf(louder(loud)));
    return [x, -y];
  };
  refill(
    element,
    make(
      "div",
      { class: "beside" },
      svg,
      make(
        "div",
        { class: "answers" },
        make("p", { class: "caption" }, "the matrix D"),
        table.element,
        make("p", { class: "caption" }, "who sits on each of three seats"),
        make("div", { class: "three-seats" }, seats),
      ),
    ),
    controls(
      slide,
      button("The middle", () => {
        point = [1 / 3, 1 / 3, 1 / 3];
        reset();
        draw();
        say();
      }),
    ),
    said,
  );
  painted(draw);
  say = draggable(grip, {
    place,
    step: 2,
    range: [0, 100],
    label: "the matrix, as a point of the triangle",
    move: ([x, y]) => {
      point = sharesAt([x, -y]);
      reset();
      draw();
    },
    at: (event) => {
      const [x, y] = pointIn(svg, event);
      return [x, -y];
    },
    describe: () => said.textContent,
  });
};
