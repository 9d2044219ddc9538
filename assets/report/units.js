// Sizes, times and counts in words, as the program itself prints them.

const BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const TIME_UNITS = [
  ["ns", 1], ["us", 1e3], ["ms", 1e6], ["s", 1e9], ["min", 6e10], ["h", 3.6e12], ["d", 8.64e13],
];

// 1234567 as 1,234,567.
function formatCount(count) {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

// 12.34 GiB.
function formatBytes(bytes, decimals = 2) {
  let unit = 0;
  while (unit < 4 && bytes >= 1024 ** (unit + 1)) unit += 1;
  return unit === 0 ? `${bytes} B` : `${(bytes / 1024 ** unit).toFixed(decimals)} ${BINARY_UNITS[unit]}`;
}

// 12.34 GiB (13,249,974,108 bytes).
function exactBytes(bytes) {
  return `${formatBytes(bytes)} (${formatCount(bytes)} bytes)`;
}

// 1.25 ms.
function formatNanos(nanos, decimals = 2) {
  const sign = nanos < 0 ? "-" : "";
  const size = Math.abs(nanos);
  let at = 0;
  while (at < TIME_UNITS.length - 1 && size >= TIME_UNITS[at + 1][1]) at += 1;
  const [unit, scale] = TIME_UNITS[at];
  return at === 0 ? `${sign}${Math.round(size)} ns` : `${sign}${(size / scale).toFixed(decimals)} ${unit}`;
}

// 12.3 %, of parts per million.
function formatPpm(ppm) {
  return Number.isNaN(ppm) ? "-" : `${(ppm / 1e4).toFixed(1)} %`;
}

function formatAddress(address) {
  return `0x${address.toString(16)}`;
}

// Round values between two ends, about so many. Sizes go in powers of two times 1, 2 or 5's
// binary neighbours, so that 512 MiB is a tick and 500.3 MiB is none.
function ticks(from, to, about, base) {
  const rough = (to - from) / Math.max(1, about);
  if (!(rough > 0)) return [];
  const power = base ** Math.floor(Math.log(rough) / Math.log(base));
  const steps = base === 2 ? [1, 2] : [1, 2, 5, 10];
  const step = power * (steps.find((it) => it * power >= rough) ?? base);
  const found = [];
  for (let at = Math.ceil(from / step); at * step <= to; at += 1) found.push(at * step);
  return found;
}

// Labels for times or sizes that stand beside each other: one unit, as many decimals as the
// step between them needs.
function tickLabels(values, units) {
  const greatest = Math.max(...values.map(Math.abs), 0);
  let at = units.length - 1;
  while (at > 0 && greatest < units[at][1]) at -= 1;
  const [unit, scale] = units[at];
  const step = values.length > 1 ? (values[1] - values[0]) / scale : 1;
  const decimals = step >= 1 ? 0 : Math.min(6, Math.ceil(-Math.log10(step) - 1e-9));
  return values.map((value) => `${(value / scale).toFixed(decimals)} ${unit}`);
}

const byteLabels = (values) => tickLabels(values, BINARY_UNITS.map((unit, at) => [unit, 1024 ** at]));
const nanoLabels = (values) => tickLabels(values, TIME_UNITS);
