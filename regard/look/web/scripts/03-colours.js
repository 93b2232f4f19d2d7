// Colours, made in OKLCH (lightness, chroma, hue), where equal steps look equal. Zero is always close to the paper.

// hue and chroma belong to a lightness; a light page uses the ramp from its light end, a dark page from its dark end
const RAMP = [
  [0.20, 0.008, 285], [0.34, 0.100, 284], [0.50, 0.130, 262], [0.66, 0.115, 222], [0.80, 0.090, 190],
  [0.92, 0.045, 170], [0.99, 0.002, 160],
];
const ENDS = { light: [0.99, 0.26], dark: [0.225, 0.95] };

// far apart in hue and in lightness, so that they are told apart without colour vision, too
const HEADS = [
  [0.52, 0.16, 258], [0.70, 0.15, 60], [0.60, 0.12, 168], [0.62, 0.19, 350], [0.76, 0.10, 222], [0.50, 0.16, 32], [0.82, 0.15, 98],
  [0.44, 0.13, 310],
];

// over an image: for the prediction, or reached by attention; and against the prediction
const SPEAKS_FOR = [255, 176, 32];
const SPEAKS_AGAINST = [96, 156, 255];

const onPaper = matchMedia("print");  // what is printed is light

function dark() {
  return document.documentElement.dataset.theme === "dark" && !onPaper.matches;
}

function oklch(lightness, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((x) => {
    const inside = Math.min(1, Math.max(0, x));
    return Math.round(255 * (inside <= 0.0031308 ? 12.92 * inside : 1.055 * inside ** (1 / 2.4) - 0.055));
  });
}

function ofLightness(lightness) {
  let k = 1;
  while (k < RAMP.length - 1 && RAMP[k][0] < lightness) k++;
  const [below, above] = [RAMP[k - 1], RAMP[k]];
  const part = Math.min(1, Math.max(0, (lightness - below[0]) / (above[0] - below[0])));
  return oklch(lightness, below[1] + part * (above[1] - below[1]), below[2] + part * (above[2] - below[2]));
}

// t from 0, nothing, to 1, all
function sequential(t) {
  const [low, high] = ENDS[dark() ? "dark" : "light"];
  return ofLightness(low + t * (high - low));
}

// t from −1, blue, over 0, paper, to 1, orange
function diverging(t) {
  const size = Math.min(1, Math.abs(t));
  const [low, high, chroma] = dark() ? [0.225, 0.80, 0.12] : [0.99, 0.52, 0.135];
  return oklch(low + size * (high - low), chroma * size ** 0.8, t < 0 ? 255 : 48);
}

function ofHead(number) {
  const [lightness, chroma, hue] = HEADS[number % HEADS.length];
  const turn = Math.floor(number / HEADS.length);  // more than eight: the same hues, lighter and darker by turns
  return oklch(lightness + (turn % 2 ? 0.13 : -0.1) * Math.ceil(turn / 2), chroma * (turn ? 0.8 : 1), hue + 9 * turn);
}

function css(rgb, alpha = 1) {
  return alpha === 1 ? `rgb(${rgb.join(" ")})` : `rgb(${rgb.join(" ")} / ${alpha})`;
}

// 256 colours as numbers that can be written into the pixels of a canvas at once
function palette(colour) {
  const table = new Uint32Array(256);
  for (let k = 0; k < 256; k++) {
    const [r, g, b] = colour(k);
    table[k] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return table;
}

const sequentialPalette = () => palette((k) => sequential(k / 255));
const divergingPalette = () => palette((k) => diverging((k - 128) / 127));

function luminance([r, g, b]) {
  const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}

// black or white, whichever is read better on a colour
function legible(rgb) {
  return luminance(rgb) > 0.18 ? "#14161a" : "#fff";
}

// Weights and probabilities are drawn as their roots, or small ones would be invisible.
const ROOTS = [0, 0.01, 0.1, 0.25, 0.5, 1].map((p) => [Math.sqrt(p), String(p).replace(/^0\./, ".")]);

const FEW = 8;  // numbers of which each counts

// A size that all but a few numbers stay below, `least` or more: one that stands out must not hide the others.
function reach(values, least = 0) {
  const sizes = Float32Array.from(values, Math.abs).sort();
  const nearly = sizes[Math.floor(0.99 * (sizes.length - 1))];
  const largest = sizes[sizes.length - 1];
  return Math.max(sizes.length > FEW && largest > 2 * nearly && nearly > 0 ? nearly : largest, least) || 1;
}

function changeBar(most, title) {
  return colourBar((t) => diverging(2 * t - 1), [[0, three(-most)], [0.5, "0"], [1, three(most)]], title);
}

// A bar that says what the colours mean. stops: [[place from 0 to 1, words], …]
function colourBar(colour, stops, title) {
  const bar = make("span", { class: "bar" });
  const paint = () => {
    const colours = Array.from({ length: 17 }, (_, k) => css(colour(k / 16)));
    bar.style.background = `linear-gradient(to right, ${colours.join(", ")})`;
  };
  const marks = stops.map(([place, text]) => make("span", { class: "mark", style: `left: ${100 * place}%` }, text));
  const element = make("div", { class: "colour-bar", role: "img", "aria-label": title || "what the colours mean" },
    make("span", { class: "what" }, title), make("span", { class: "scale" }, bar, marks));
  return { element, paint };
}

function mixed(from, to, part) {
  return from.map((value, k) => Math.round(value + (to[k] - value) * part));
}
