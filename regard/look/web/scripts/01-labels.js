// Labels are arbitrary text. Shown, each character is visible and none can change how the page around it reads.

const VISIBLE = new Map([["\n", "↵"], ["\t", "⇥"], ["\u00a0", "⍽"], ["\u200d", "\u200d"]]);  // the last one joins emoji
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;

// A label in words, such as the name of a class.
function shown(label) {
  if (label === "") return "∅";
  let text = "";
  for (const character of label) text += VISIBLE.get(character) ?? tamed(character);
  return text === "\u200d" ? "‹200D›" : text;
}

// A token of a text, in which spaces count.
function shownToken(label) {
  return shown(label).replaceAll(" ", "·");
}

// All labels of a stream, as they are shown.
function shownLabels({ labels, kind }) {
  return labels.map(kind === "text" ? shownToken : shown);
}

// The same where there is little room: patches by row and column alone.
function shortLabels(stream) {
  const labels = shownLabels(stream);
  return stream.kind === "patches" ? labels.map((label) => label.replace(/^row (\d+), column (\d+)$/, "r$1 c$2")) : labels;
}

function tamed(character) {
  const code = character.codePointAt(0);
  if (code < 32) return String.fromCodePoint(0x2400 + code);  // ␀ … ␟
  return UNSEEN.test(character) ? `‹${code.toString(16).toUpperCase().padStart(4, "0")}›` : character;
}

// A label in a sentence, as it is shown; its own direction of writing does not reach beyond it.
function token(text, place = null) {
  return make("bdi", { class: "token" }, clipped(text, 40), place === null ? null : make("sub", {}, `\u2009${nth(place)}`));
}

// A token of a stream, with its place in a text; patches and the like are called by their places.
function streamToken({ kind }, label, k) {
  return token(label, kind === "text" ? k : null);
}

function clipped(text, most) {
  const characters = [...text];
  return characters.length <= most ? text : characters.slice(0, most - 1).join("") + "…";
}

function capital(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
