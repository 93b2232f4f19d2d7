// Numbers as a reader wants them.

function three(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  const text = size >= 0.001 && size < 100000 ? (size >= 1000 ? size.toFixed(0) : size.toPrecision(3)) : tens(size);
  return (x < 0 ? "−" : "") + text;
}

// 1.2·10⁻⁷
function tens(x) {
  if (!Number.isFinite(x)) return "∞";
  const [digits, power] = x.toExponential(1).split("e");
  const raised = [...String(Number(power))].map((character) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(character)]);
  return `${digits}·10${raised.join("")}`;
}

function signed(x) {
  return x > 0 ? `+${three(x)}` : three(x);
}

function percent(p) {
  const hundred = 100 * p;
  if (hundred > 0 && hundred < 0.01) return "<0.01 %";
  return `${hundred.toFixed(hundred >= 99.95 ? 0 : hundred >= 1 ? 1 : 2)} %`;
}

// People count from 1: layers, heads, rows, columns, channels, tokens. Code, addresses and what a server is asked count from 0.
function nth(k) {
  return whole(k + 1);
}

function whole(x) {
  return x.toLocaleString("en-US").replaceAll(",", "\u202f");
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
