// What the library computed when the page was built, and who is at the party.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SIDE = DATA.side; // pixels of what was learned
const FINE = DATA.fine; // pixels of a portrait
const bytesOf = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
const GUESTS = DATA.guests.map((guest, number) => ({
  ...guest,
  number,
  portrait: Array.from(bytesOf(guest.portrait), (x) => x / 255),
}));
const COMING = GUESTS.slice(0, DATA.coming);
const SIXTH = GUESTS[DATA.coming];
const QUERIES = DATA.queries;
const LAYERS = DATA.latent.layers.map(({ weight, bias }) => ({ weight: unpack(weight), bias: unpack(bias) }));
const tokensOf = (guests) => guests.map((guest) => guest.token);

const two = (x) => (Math.abs(x) < 0.005 ? 0 : x).toFixed(2).replace("-", "−");
const short = (guest) => (guest === SIXTH ? "physicist" : guest.name);

// The colour of a guest, wherever it is seen: lightness for a light and for a dark page, chroma, hue.
const HUES = [
  [350, 0.17],
  [258, 0.15],
  [75, 0.13],
  [35, 0.15],
  [165, 0.11],
  [310, 0.14],
];
function colourOf({ number }) {
  const [hue, chroma] = HUES[number];
  return oklch(dark() ? 0.78 : 0.52, dark() ? chroma * 0.85 : chroma, hue);
}
const paper = () => (dark() ? [19, 21, 25] : [253, 253, 252]);
const MUSIC = GUESTS[0];
const SCIENCE = GUESTS[4];

// What has to be drawn again when the theme changes.
const painters = [];
function painted(paint) {
  painters.push(paint);
  paint();
}
