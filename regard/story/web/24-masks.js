// Who may hear whom: weights as a matrix under a mask.

const MASKS = [
  ["none", "everyone"],
  ["causal", "causal"],
  ["window", "neighbours"],
  ["both", "causal & neighbours"],
  ["padding", "the shopkeeper is not real"],
];

figures.masks = (element) => {
  let name = "causal";
  const face = (guest) => portrait(guest, "tiny");
  const table = matrixTable({
    rows: COMING,
    columns: COMING,
    caption: "weights: rows ask, columns are asked",
    large: "with-heads",
    heads: { columns: () => COMING.map(face), row: (i) => face(COMING[i]) },
  });
  const said = spoken();
  const draw = () => {
    const x = tokensOf(COMING).map((token) => token.map((value) => 2 * value));
    const weights = attentionWeights(x, x, { allowed: masks[name] });
    table.set(weights, { text: (value, i, j) => (masks[name](i, j) ? two(value) : "·"), marked: (i, j) => !masks[name](i, j) });
    const pairs = COMING.flatMap((_, i) => COMING.map((_, j) => masks[name](i, j)));
    said.textContent = `${pairs.filter(Boolean).length} of ${pairs.length} pairs may attend. Every row sums to 1. A dot: may not, so its weight is 0.`;
  };
  refill(
    element,
    controls(
      choice("the mask", MASKS, name, (chosen) => {
        name = chosen;
        draw();
      }),
    ),
    table.element,
    said,
  );
  painted(draw);
};
