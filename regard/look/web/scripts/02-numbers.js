// Numbers as a reader wants them. The same rules as in regard/runs/number_format.py; a test compares the two.

// so many significant digits; large whole numbers keep all of theirs
function number(x, digits) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return (x < 0 ? "−" : "") + (size >= 0.001 && size < Math.max(1e5, 10 ** digits) ? plain(size, digits) : tens(size, digits - 1));
}

function plain(size, digits) {
  return size >= 10 ** digits ? size.toFixed(0) : withoutPower(size.toPrecision(digits), size);
}

// toPrecision writes 1.00e+3 for what is rounded up to one more digit
function withoutPower(text, size) {
  return text.includes("e") ? size.toFixed(0) : text;
}

function three(x) {
  return number(x, 3);
}

// 1.2·10⁻⁷
function tens(x, digits) {
  if (!Number.isFinite(x)) return "∞";
  const [first, power] = x.toExponential(digits - 1).split("e");
  const raised = [...String(Number(power))].map((character) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(character)]);
  return `${first}·10${raised.join("")}`;
}

// four decimals, or as many as show three digits of a small one
function lossText(x) {
  if (!Number.isFinite(x)) return number(x, 4);
  if (x === 0 || Math.abs(x) >= 0.01) return x.toFixed(4).replace("-", "−");
  return Math.abs(x) >= 0.0001 ? x.toPrecision(3).replace("-", "−") : number(x, 4);
}

// a measure without its name
function valueText(measure, x) {
  if (["accuracy", "balanced accuracy", "majority share", "exact"].includes(measure)) return percent(x);
  return measure === "loss" || measure === "log loss" ? lossText(x) : number(x, 4);
}

function signed(x) {
  return x > 0 ? `+${three(x)}` : three(x);
}

// one decimal, and two if it is closer than 1 to 0 or to 100; only what is 0 or 1 is 0% or 100%
function percent(p) {
  if (!Number.isFinite(p)) return "–";
  const hundred = 100 * p;
  if (p === 0 || p === 1) return `${hundred}%`;
  if (hundred > 0 && hundred < 0.01) return "<0.01%";
  if (hundred > 99.99 && hundred < 100) return ">99.99%";
  return `${hundred.toFixed(Math.abs(hundred) < 1 || (hundred > 99 && hundred < 100) ? 2 : 1)}%`;
}

// People count from 1: layers, heads, rows, columns, channels, tokens. Code, addresses and what a server is asked count from 0.
function nth(k) {
  return whole(k + 1);
}

function whole(x) {
  return x.toLocaleString("en-US");
}

// A few round numbers that cover a range.
function ticks(low, high, about) {
  if (!(high > low)) return [low];
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

// As many digits as tell the ticks apart.
function tickText(value, all) {
  const step = all.length > 1 ? Math.abs(all[1] - all[0]) : Math.abs(value) || 1;
  if (Math.abs(value) >= 10000 && step >= 1) return whole(Math.round(value)).replace("-", "−");
  const digits = Math.min(8, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return (Math.abs(value) < step * 1e-6 ? 0 : value).toFixed(digits).replace("-", "−");
}
