// The numbers of a page: base64 of deflated bytes, unpacked only when somebody looks.

const unpacking = new Map();  // text -> promise of its bytes, for what is asked for again and again

async function unpacked(text) {
  const plain = atob(text);
  const bytes = new Uint8Array(plain.length);
  for (let k = 0; k < plain.length; k++) bytes[k] = plain.charCodeAt(k);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function unpackedOnce(text) {
  if (!unpacking.has(text)) unpacking.set(text, unpacked(text));
  return unpacking.get(text);
}

// {"shape", "low", "high", "data"} -> the same with `bytes` and a function from a place to the number there
async function unpackedLevels({ shape, low, high, data }) {
  const bytes = await unpackedOnce(data);
  return { shape, low, high, bytes, at: (place) => low + (bytes[place] / 255) * (high - low) };
}

// {"shape", "data"} -> the same with all `numbers` and a function from a place to the number there
async function unpackedFloats({ shape, data }) {
  const bytes = await unpackedOnce(data);
  const numbers = floatsOf(bytes);
  return { shape, numbers, at: (place) => numbers[place] };
}

function floatsOf(bytes) {
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}

let halves = null;

// float16 -> float32, through a table of all there are
function fromHalves(bytes) {
  halves ??= Float32Array.from({ length: 65536 }, (_, bits) => {
    const [sign, power, rest] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    if (power === 0) return sign * rest * 2 ** -24;
    return power === 31 ? (rest ? NaN : sign * Infinity) : sign * (1 + rest / 1024) * 2 ** (power - 15);
  });
  return Float32Array.from(sixteens(bytes), (bits) => halves[bits]);
}

function sixteens(bytes) {
  return new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2);
}
