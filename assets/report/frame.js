// What all views are framed by: axes, the needle of the cursor, marks of failures and phases,
// and the note beside the pointer.

const jobs = new Set();
let working = false;

// Does a job before the next frame, once however often it is asked for. Each job is a turn of
// its own, so that the page is held for the longest of them and not for their sum.
function soon(job) {
  jobs.add(job);
  if (!working) workOff();
}

async function workOff() {
  working = true;
  while (jobs.size > 0) {
    await new Promise(requestAnimationFrame);
    for (const job of [...jobs]) {
      jobs.delete(job);
      job();
      await pause();
    }
  }
  working = false;
}

// A panel: a caption with a legend, and room to draw that the keyboard reaches.
function panel(host, kind) {
  const figure = host.appendChild(document.createElement("figure"));
  figure.className = `panel ${kind}`;
  const caption = figure.appendChild(document.createElement("figcaption"));
  for (const part of ["name", "legend"]) {
    caption.appendChild(document.createElement("span")).className = part;
  }
  const plot = figure.appendChild(document.createElement("div"));
  plot.className = "plot";
  plot.tabIndex = 0;
  plot.setAttribute("role", "img");
  return figure;
}

// A canvas of so many pixels of the page, cleared, with one unit a pixel.
function sized(canvas, { width, height }) {
  const scale = Math.min(2, devicePixelRatio);
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const FONT = "11px system-ui, sans-serif";

// Labels along the shared axis.
function axisLabels(axis, values) {
  return axis.mode === "time" ? nanoLabels(values) : values.map(formatCount);
}

// A border with ticks: the shared axis below, sizes at the left.
function frameAxes(context, axis, box, { foot, top }) {
  context.font = FONT;
  context.fillStyle = themed("soft");
  context.strokeStyle = themed("line");
  context.lineWidth = 1;
  context.strokeRect(box.left - 0.5, box.top - 0.5, box.width + 1, box.height + 1);
  context.textAlign = "right";
  context.textBaseline = "middle";
  const rises = ticks(foot, top, box.height / 44, 2);
  byteLabels(rises).forEach((label, at) => {
    const y = box.top + ((top - rises[at]) / (top - foot)) * box.height;
    context.fillText(label, box.left - 6, Math.min(Math.max(y, box.top + 5), box.top + box.height - 5));
    context.fillRect(box.left - 4, Math.round(y), 4, 1);
  });
  context.textAlign = "center";
  context.textBaseline = "top";
  const steps = ticks(axis.from, axis.to, box.width / 90, 10);
  axisLabels(axis, steps).forEach((label, at) => {
    const x = box.left + ((steps[at] - axis.from) / (axis.to - axis.from)) * box.width;
    context.fillRect(Math.round(x), box.top + box.height, 1, 4);
    const half = context.measureText(label).width / 2;
    context.fillText(label, Math.min(Math.max(x, box.left + half), box.left + box.width - half), box.top + box.height + 7);
  });
}

// Triangles and lines where requests failed; failures of one pixel are one mark.
function failureMarks(context, track, x, left, right, top, height) {
  let before = -Infinity;
  context.save();
  for (const event of track.failures) {
    const at = Math.round(x(event));
    if (at < left || at > right || at === before) continue;
    before = at;
    context.fillStyle = themed("failure");
    context.beginPath();
    context.moveTo(at - 5, top - 12);
    context.lineTo(at + 5, top - 12);
    context.lineTo(at, top - 2);
    context.fill();
    context.globalAlpha = 0.45;
    context.fillRect(at, top, 1, height);
    context.globalAlpha = 1;
  }
  context.restore();
}

// The words of phases along the foot of a map, where there is room for them.
function phases(context, map, x, box) {
  const { run } = map.track;
  const events = run.data["mark.event"];
  if (!run.known && events.length > 0) run.words().then(() => map.request());
  context.font = FONT;
  context.textAlign = "left";
  context.textBaseline = "bottom";
  let before = -Infinity;
  for (let at = 0; at < events.length; at += 1) {
    const place = x(events[at]);
    if (place < box.left || place > box.left + box.width || place - before < MARKS_APART) continue;
    before = place;
    const words = (run.known?.labels[run.data["mark.label"][at]] ?? "").slice(0, 22);
    const width = Math.min(context.measureText(words).width, MARKS_APART - 10, box.left + box.width - place - 6);
    const foot = box.top + box.height;
    context.fillStyle = themed("soft");
    context.globalAlpha = 0.4;
    context.fillRect(Math.round(place), box.top, 1, box.height);
    context.globalAlpha = 0.8;
    context.fillStyle = themed("paper");
    if (width > 60) context.fillRect(place + 1, foot - 15, width + 5, 15);
    context.globalAlpha = 1;
    context.fillStyle = themed("soft");
    if (width > 60) context.fillText(words, place + 3, foot - 2, width);
  }
}

// The upright line at the cursor.
function needle(plot) {
  const line = plot.appendChild(document.createElement("div"));
  line.className = "needle";
  line.hidden = true;
  return line;
}

function moveNeedle(line, axis, place, width) {
  line.hidden = place === null || place < axis.from || place > axis.to;
  if (!line.hidden) {
    const share = (place - axis.from) / (axis.to - axis.from);
    line.style.transform = `translateX(${(GUTTER.left + share * width).toFixed(1)}px)`;
  }
}

// An element with a text: nothing of a trace is ever anything else.
function told(tag, text, kind) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

let tipWanted = 0;

function hideTip() {
  tipWanted += 1;
  document.getElementById("tip").hidden = true;
}

// Tells the block under the pointer, beside it.
async function tellBlock(track, block, place, event) {
  tipWanted += 1;
  const own = tipWanted;
  const lines = block === null ? groundTold(track, place) : await blockLines(track, block);
  if (own !== tipWanted) return;
  const tip = document.getElementById("tip");
  tip.replaceChildren(...lines);
  tip.hidden = lines.length === 0;
  const { innerWidth, innerHeight } = window;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const beside = event.clientX + 16 + width > innerWidth ? event.clientX - 16 - width : event.clientX + 16;
  const below = event.clientY + 16 + height > innerHeight ? event.clientY - 16 - height : event.clientY + 16;
  tip.style.transform = `translate(${Math.max(4, beside)}px, ${Math.max(4, below)}px)`;
}

function groundTold(track, place) {
  const address = track.addressAt(place);
  return address === null ? [] : [told("p", `${formatAddress(Math.round(address))}: not in use by a block that is told apart`, "note")];
}

async function blockLines(track, at) {
  const block = await track.blockTold(at);
  const { run } = track;
  const waste = block.bytes - block.requested;
  const end = block.kept ? "never given back" : `to event ${formatCount(block.to)}`;
  const rows = [
    ["requested", exactBytes(block.requested)],
    ["block", `${exactBytes(block.bytes)}${waste > 0 ? `, ${formatBytes(waste)} lost to rounding` : ""}`],
    ["address", block.address === null ? "-" : formatAddress(block.address)],
    ["lifetime", `${formatNanos(block.nanos)}, from event ${formatCount(block.from)} ${end}`],
    ["stream", `${block.stream} (${run.streams[block.stream] ?? "?"})`],
  ];
  const list = document.createElement("dl");
  for (const [name, value] of rows) list.append(told("dt", name), told("dd", value));
  const lines = [told("h3", block.name), list];
  if (block.stack.length > 0) {
    const stack = document.createElement("ol");
    stack.append(...block.stack.map((frame) => told("li", frame)));
    lines.push(stack);
  }
  return lines;
}
