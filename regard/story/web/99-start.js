// Each figure draws itself where its chapter wants it.

document.querySelectorAll("[data-figure]").forEach((element) => {
  const title = element.closest("section").querySelector("h2");
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", `figure: ${title.textContent.replace(/^[0-9]+/, "")}`);
  figures[element.dataset.figure](element);
});
document.getElementById("theme").append(themeButton(() => painters.forEach((paint) => paint())));

// What the figures compute with, for tests and for the curious.
globalThis.story = {
  memories,
  blend,
  attend,
  attentionWeights,
  masks,
  softmax,
  sinusoidal,
  rotate,
  rotaryScore,
  heard,
  circulant,
  shiftMatrix,
  multiply,
  sinkhorn,
  mean,
  permutationMatrix,
  codeOf,
  digitsOf,
  fraction,
  decode,
  layers: LAYERS,
  guests: GUESTS,
};
performance.mark("regard:interactive");
