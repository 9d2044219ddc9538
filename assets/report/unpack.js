// The packed columns of the page: base64, deflate, planes of bytes, differences. What takes
// long is done in turns, so that the page answers in between.

// Work goes on for so long before others have their turn: longer until the first picture is
// there, for nobody moves what cannot be seen yet.
const TURN_MS = 6;
const FIRST_TURN_MS = 40;
let turnMs = FIRST_TURN_MS;

const waiting = [];
const channel = new MessageChannel();
channel.port1.onmessage = () => waiting.shift()();

// Lets everything else that waits happen first.
function pause() {
  return new Promise((resolve) => {
    waiting.push(resolve);
    channel.port2.postMessage(null);
  });
}

// Whether a turn has lasted long enough.
class Turn {
  constructor() {
    this.began = performance.now();
  }

  get over() {
    return performance.now() - this.began > turnMs;
  }

  async rest() {
    await pause();
    this.began = performance.now();
  }
}

// The bytes of an element's base64.
async function decoded(text, turn) {
  // Browsers of the last years do it in one call, in milliseconds.
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = new Uint8Array((text.length / 4) * 3 - padding);
  const step = 1 << 16;
  for (let from = 0, to = 0; from < text.length; from += step) {
    const part = atob(text.slice(from, from + step));
    for (let at = 0; at < part.length; at += 1) bytes[to + at] = part.charCodeAt(at);
    to += part.length;
    if (turn.over) await turn.rest();
  }
  return bytes;
}

// The bytes that an element of the page holds.
async function bytesOf(id) {
  const packed = await decoded(document.getElementById(id).textContent, new Turn());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The columns that an element holds, by name.
async function columnsOf(id, told) {
  const bytes = await bytesOf(id);
  const turn = new Turn();
  const columns = {};
  let from = 0;
  for (const column of told) {
    columns[column.name] = unpacked(column, bytes, from);
    from += column.count * column.width;
    if (turn.over) await turn.rest();
  }
  return columns;
}

function unpacked({ count, scale, width, delta, optional }, bytes, from) {
  const values = width <= 4 ? narrow(count, width, bytes, from) : wide(count, width, bytes, from);
  const told = delta ? summed(values, width) : values;
  const scaled = told instanceof Float64Array ? told : new Float64Array(count);
  for (let at = 0; at < count; at += 1) {
    scaled[at] = optional && told[at] === 0 ? NaN : told[at] * scale - (optional ? 1 : 0);
  }
  return scaled;
}

// Differences, their signs folded into the lowest bit, summed up.
function summed(folded, width) {
  const values = new Float64Array(folded.length);
  let sum = 0;
  if (width <= 4) {
    for (let at = 0; at < values.length; at += 1) values[at] = sum += (folded[at] >>> 1) ^ -(folded[at] & 1);
    return values;
  }
  for (let at = 0; at < values.length; at += 1) {
    const value = folded[at];
    values[at] = sum += value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
  return values;
}

// Numbers of up to four planes; by far the most are.
function narrow(count, width, bytes, from) {
  const values = new Uint32Array(count);
  for (let plane = 0; plane < width; plane += 1) {
    const start = from + plane * count;
    for (let at = 0; at < count; at += 1) values[at] |= bytes[start + at] << (8 * plane);
  }
  return values;
}

function wide(count, width, bytes, from) {
  const values = new Float64Array(count);
  for (let plane = 0; plane < width; plane += 1) {
    const start = from + plane * count;
    for (let at = 0; at < count; at += 1) values[at] += bytes[start + at] * 256 ** plane;
  }
  return values;
}

// The text that an element holds, as JSON.
async function jsonOf(id) {
  return JSON.parse(new TextDecoder().decode(await bytesOf(id)));
}
