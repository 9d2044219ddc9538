// The moment at the cursor: how much of what there is, and the free blocks by size.

const SVG = "http://www.w3.org/2000/svg";
// Height of a row of the histogram, and where its bars begin and end.
const ROW = 15;
const BARS = { left: 92, width: 150 };

class Moment {
  constructor(host, axis) {
    this.host = host;
    this.axis = axis;
    this.telling = () => this.tell();
  }

  request() {
    soon(this.telling);
  }

  tell() {
    const { axis } = this;
    if (axis.cursor === null || axis.tracks.length === 0) {
      this.host.replaceChildren(told("p", "Point at a moment, or press ] with the focus in a view, to see its figures and its free blocks.", "note"));
      return;
    }
    const place = axis.cursorPlace;
    const parts = axis.tracks.map((track) => this.of(track, track.run.eventAt(place, axis.mode)));
    // Rounding may say the event before: the first run's own is known.
    if (axis.tracks[0]) parts[0] = this.of(axis.tracks[0], axis.cursor);
    this.host.replaceChildren(...parts);
  }

  // One track at one event.
  of(track, event) {
    const part = document.createElement("div");
    part.className = "part";
    const at = track.bucketAt(event);
    const { data, run } = track;
    const [first, last] = [data["time.first"][at], data["time.last"][at]];
    const span = first === last ? `event ${formatCount(first)}` : `events ${formatCount(first)} to ${formatCount(last)}`;
    part.append(told("h3", track.label));
    part.append(told("p", `${formatNanos(run.place(event, "time"))}, ${span}`, "note"));
    part.append(this.figures(track, at));
    const failure = this.failureAt(track, event);
    if (failure !== null) part.append(failureTold(track, failure));
    const histogram = freeBlocks(track, event);
    if (histogram) part.append(...histogram);
    return part;
  }

  // The number of the failure at an event, if there is one.
  failureAt(track, event) {
    const at = placeOf(track.failures, event);
    return at >= 0 && track.failures[at] === event ? at : null;
  }

  // What there was after the bucket's last event.
  figures(track, at) {
    const { data } = track;
    const list = document.createElement("dl");
    const external = data["external.last"][at];
    const rows = [
      ["requested", exactBytes(data.requested[at])],
      ["occupied", exactBytes(data.occupied[at])],
      ["reserved", exactBytes(data.reserved[at])],
      ["free", exactBytes(data.free[at])],
      ["largest free", exactBytes(data.largest[at])],
      ["fragmentation", formatPpm(data.free[at] > 0 ? external : NaN)],
      ["failed so far", formatCount(data["time.failed"][at])],
    ];
    for (const [name, value] of rows) list.append(told("dt", name), told("dd", value));
    return list;
  }
}

// A failure in words.
function failureWords(track, at) {
  const value = (name) => track.data[`failure.${name}`][at];
  const [name, meaning] = INDEX.verdicts[value("verdict")];
  const wanted = value("wanted");
  const rounded = wanted !== value("bytes") ? `, ${formatBytes(wanted)} after rounding` : "";
  return {
    asked: `${exactBytes(value("bytes"))}${rounded} on stream ${value("stream")}`,
    verdict: `${name}: ${meaning}`,
    stood: `${formatBytes(value("requested"))} requested, ${formatBytes(value("occupied"))} occupied, ` +
      `${formatBytes(value("reserved"))} reserved, ${formatBytes(value("free"))} free, the largest piece ${formatBytes(value("largest"))}`,
  };
}

function failureTold(track, at) {
  const words = failureWords(track, at);
  const part = document.createElement("div");
  part.className = "failed";
  part.append(told("p", `A request of ${words.asked} failed.`), told("p", words.verdict), told("p", `There were ${words.stood}.`, "note"));
  return part;
}

// The free blocks by size, as of the last moment that was noted up to an event.
function freeBlocks(track, event) {
  const events = track.data["list.event"];
  const noted = placeOf(events, event);
  if (noted < 0) return null;
  const sizes = track.free_to - track.free_from;
  const bins = Array.from({ length: sizes }, (_, at) => ({
    size: 2 ** (track.free_from + at),
    count: track.data["list.count"][at * events.length + noted],
    bytes: track.data["list.bytes"][at * events.length + noted],
  }));
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  const title = `${formatCount(total)} free blocks by size, after event ${formatCount(events[noted])}`;
  return [told("p", title, "legend"), histogram(bins, title, track.colour)];
}

// Bars from small to large: their length is the bytes, beside them stands the count.
function histogram(bins, title, colour) {
  const svg = document.createElementNS(SVG, "svg");
  const most = Math.max(1, ...bins.map((bin) => bin.bytes));
  const height = bins.length * ROW + 2;
  const set = (element, values) => {
    for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
    return svg.appendChild(element);
  };
  svg.setAttribute("viewBox", `0 0 340 ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  const make = (kind, values, text = "") => {
    set(document.createElementNS(SVG, kind), values).textContent = text;
  };
  bins.forEach((bin, at) => {
    const y = at * ROW;
    const width = (bin.bytes / most) * BARS.width;
    make("text", { x: BARS.left - 6, y: y + 11, "text-anchor": "end", class: bin.count > 0 ? "some" : "none" }, `from ${formatBytes(bin.size, 0)}`);
    if (bin.count === 0) return;
    make("rect", { x: BARS.left, y: y + 2, width: Math.max(1.5, width), height: ROW - 4, fill: seen(colour) });
    make("text", { x: BARS.left + width + 5, y: y + 11, class: "some" }, `${formatCount(bin.count)}, ${formatBytes(bin.bytes)}`);
  });
  return svg;
}
