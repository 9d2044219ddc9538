// The address map: which addresses were in use when, under one policy.

// Room beside what is drawn, in pixels: the same in all panels, so that their axes agree.
const GUTTER = { left: 66, right: 14, top: 14, bottom: 24 };
// Classes of colours by size.
const CLASSES = 8;
// Marks of phases closer than this, in pixels, are left out.
const MARKS_APART = 120;

class MapPanel {
  constructor(host, axis) {
    this.axis = axis;
    this.figure = panel(host, "map");
    this.plot = this.figure.querySelector(".plot");
    this.picture = this.plot.appendChild(document.createElement("canvas"));
    this.marks = this.plot.appendChild(document.createElement("canvas"));
    this.legend = this.figure.querySelector(".legend");
    this.needle = needle(this.plot);
    this.frame = document.createElement("canvas");
    this.overview = document.createElement("canvas");
    this.drawn = null;
    this.size = { width: 0, height: 0 };
    this.drawing = () => this.draw();
    this.marking = () => this.drawMarks();
    navigate(this.plot, axis, this);
    new ResizeObserver(([{ contentRect }]) => this.resize(contentRect)).observe(this.plot);
  }

  // Shows a track, or nothing.
  async show(track, colouring) {
    this.track = track;
    this.figure.hidden = !track?.mapped;
    if (this.figure.hidden) return;
    this.plot.setAttribute("aria-label", `Addresses in use over time under ${track.label}`);
    this.figure.querySelector(".name").textContent = `Addresses in use under ${track.label}`;
    this.level();
    await this.shape(colouring);
  }

  // Puts the track's rectangles on the axis in use, and gives each its colour.
  async shape(colouring) {
    const { track, axis } = this;
    const { data, run, blocks } = track;
    this.shapes = null;
    this.drawn = null;
    this.overviewed = null;
    const turn = new Turn();
    const along = async (from, to) => {
      const [x0, x1] = [new Float64Array(from.length), new Float64Array(from.length)];
      for (let at = 0; at < from.length; at += 1) {
        x0[at] = run.place(from[at], axis.mode);
        x1[at] = run.place(to[at], axis.mode);
        if ((at & 4095) === 0 && turn.over) await turn.rest();
      }
      return { count: from.length, x0, x1 };
    };
    const mapped = await along(data["mapped.from"], data["mapped.to"]);
    const cellTo = data["cell.from"].map((from, at) => from + data["cell.events"][at]);
    const cells = await along(data["cell.from"], cellTo);
    const own = await along(blocks.from, blocks.to);
    Object.assign(mapped, { foot: data["mapped.place"], bytes: data["mapped.bytes"] });
    const share = data["cell.share"].map((ppm) => ppm / 1e6);
    Object.assign(cells, { foot: data["cell.place"], bytes: data["cell.bytes"], share });
    Object.assign(own, { foot: blocks.place, bytes: blocks.bytes });
    const kinds = kindsOf(track, colouring);
    if (track !== this.track) return;
    this.kinds = kinds;
    this.shapes = { mapped, cells, blocks: own, kinds: kinds.of };
    this.colour();
  }

  // Takes the colours of the theme, and draws anew.
  colour() {
    if (!this.shapes) return;
    const palette = this.kinds.ordered ? INDEX.ramp : INDEX.colours;
    this.look = {
      colours: this.kinds.names.map((_, at) => channels(seen(palette[at % palette.length]))),
      paper: channels(themed("paper")),
      ground: channels(themed("ground")),
    };
    this.listColours(palette);
    this.fresh = false;
    this.whole = false;
    this.request();
  }

  listColours(palette) {
    const entry = (name, colour) => {
      const item = document.createElement("span");
      const swatch = item.appendChild(document.createElement("i"));
      swatch.style.background = colour;
      item.append(name);
      return item;
    };
    const own = this.kinds.names.slice(0, 12).map((name, at) => entry(name, seen(palette[at % palette.length])));
    const more = this.kinds.names.length > 12 ? [entry(`and ${this.kinds.names.length - 12} more`, "none")] : [];
    this.legend.replaceChildren(...own, ...more, entry("reserved, not in use", themed("ground")));
  }

  // The drawn part, on the screen.
  box() {
    const box = this.plot.getBoundingClientRect();
    const { left, top, width, height } = this.room;
    return { left: box.left + left, top: box.top + top, width, height };
  }

  // How large the drawn part is.
  get room() {
    const { left, right, top, bottom } = GUTTER;
    return {
      left,
      top,
      width: Math.max(1, this.size.width - left - right),
      height: Math.max(1, this.size.height - top - bottom),
    };
  }

  // All addresses.
  level() {
    [this.foot, this.top] = [0, this.track?.height ?? 1];
    this.request();
  }

  lift(share) {
    this.look_at(this.foot + share * (this.top - this.foot), this.top - this.foot);
  }

  stretch(factor, share) {
    const span = this.top - this.foot;
    const wanted = Math.min(Math.max(span * factor, 4096), this.track.height);
    this.look_at(this.foot + share * (span - wanted), wanted);
  }

  look_at(foot, span) {
    this.foot = Math.min(Math.max(foot, 0), this.track.height - span);
    this.top = this.foot + span;
    this.request();
  }

  // What is there is stretched until it is drawn anew.
  resize({ width, height }) {
    this.size = { width, height };
    this.fresh = false;
    this.request();
  }

  request() {
    soon(this.drawing);
  }

  // What is to be seen: the stretch of the axis, the addresses, and how many pixels.
  window() {
    const { width, height } = this.room;
    const scale = Math.min(2, devicePixelRatio);
    const { from, to } = this.axis;
    return {
      from, to, foot: this.foot, top: this.top,
      width: Math.round(width * scale), height: Math.round(height * scale),
    };
  }

  draw() {
    if (this.figure.hidden || !this.shapes || this.size.width === 0) return;
    const context = sized(this.picture, this.size);
    const { left, top, width, height } = this.room;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.fillStyle = themed("paper");
    context.fillRect(left, top, width, height);
    const wanted = this.window();
    if (!covers(this.drawn, wanted)) this.put(context, this.overview, this.overviewed, wanted);
    this.put(context, this.frame, this.drawn, wanted);
    context.restore();
    frameAxes(context, this.axis, this.room, this);
    soon(this.marking);
    if (!this.whole) this.paint({ ...wanted, from: 0, to: this.axis.end, foot: 0, top: this.track.height });
    else if (!this.fresh || !sameWindow(this.drawn, wanted)) this.paint(wanted);
    else this.settled?.();
  }

  // A finished picture, moved and stretched to where it belongs.
  put(context, canvas, drawn, wanted) {
    if (!drawn) return;
    const { left, top, width, height } = this.room;
    const x = (place) => left + ((place - wanted.from) / (wanted.to - wanted.from)) * width;
    const y = (place) => top + ((wanted.top - place) / (wanted.top - wanted.foot)) * height;
    context.imageSmoothingEnabled = false;
    const [x0, y0] = [x(drawn.from), y(drawn.top)];
    context.drawImage(canvas, x0, y0, x(drawn.to) - x0, y(drawn.foot) - y0);
  }

  // Makes a picture of a window; one at a time, and the next only where it is still wanted.
  async paint(wanted) {
    if (this.painting) return;
    this.painting = true;
    const { shapes, look } = this;
    const stale = () => shapes !== this.shapes || look !== this.look;
    if (this.raster?.width !== wanted.width || this.raster?.height !== wanted.height) {
      this.raster = new Raster(wanted.width, wanted.height);
    }
    const image = await pictured(this.raster, shapes, wanted, look, stale);
    this.painting = false;
    if (image) this.keep(image, wanted);
    this.request();
  }

  // The first picture is of everything: it lies below all others, so that none leaves a gap.
  keep(image, wanted) {
    const whole = !this.whole;
    for (const canvas of whole ? [this.overview, this.frame] : [this.frame]) {
      [canvas.width, canvas.height] = [wanted.width, wanted.height];
      canvas.getContext("2d").putImageData(image, 0, 0);
    }
    if (whole) this.overviewed = wanted;
    this.drawn = wanted;
    this.whole = true;
    this.fresh = true;
  }

  // Failures, phases, and the block under the pointer.
  drawMarks() {
    if (!this.shapes) return;
    const context = sized(this.marks, this.size);
    const box = this.room;
    const { left, top } = box;
    const x = (event) => left + this.share(event) * box.width;
    phases(context, this, x, box);
    failureMarks(context, this.track, x, left, left + box.width, top, box.height);
    if (this.hovered != null) {
      const { from, to, place, bytes } = this.track.blocks;
      const at = this.hovered;
      const y = (foot) => top + ((this.top - foot) / (this.top - this.foot)) * box.height;
      context.beginPath();
      context.rect(left, top, box.width, box.height);
      context.clip();
      context.strokeStyle = themed("ink");
      context.lineWidth = 2;
      const [x0, y0] = [x(from[at]), y(place[at] + bytes[at])];
      context.strokeRect(x0 - 1, y0 - 1, Math.max(2, x(to[at]) - x0) + 2, Math.max(2, y(place[at]) - y0) + 2);
    }
  }

  // Where an event of the track's run is in view, from 0 to 1.
  share(event) {
    const { axis } = this;
    return (this.track.run.place(event, axis.mode) - axis.from) / (axis.to - axis.from);
  }

  point(place) {
    moveNeedle(this.needle, this.axis, place, this.room.width);
  }

  // The pointer is over a place: the cursor goes there, and a block there is told.
  hover(x, y, event) {
    if (x < 0 || x > 1 || !this.shapes) return this.leave();
    const { axis, track } = this;
    const box = this.box();
    const at = axis.from + x * (axis.to - axis.from);
    const found = track.run.eventAt(at, axis.mode);
    if (track.run === axis.tracks[0].run) axis.point(found);
    const reach = 2 / box.width;
    const slack = Math.abs(track.run.eventAt(at + reach * (axis.to - axis.from), axis.mode) - found);
    const place = this.top - y * (this.top - this.foot);
    const bytes = (2 / box.height) * (this.top - this.foot);
    this.hovered = track.blockAt(found, place, slack, bytes);
    soon(this.marking);
    return tellBlock(track, this.hovered, place, event);
  }

  leave() {
    this.hovered = null;
    hideTip();
    soon(this.marking);
  }
}

// Whether a picture leaves nothing of a window open.
function covers(drawn, wanted) {
  return drawn !== null && drawn.from <= wanted.from && drawn.to >= wanted.to && drawn.foot <= wanted.foot && drawn.top >= wanted.top;
}

function sameWindow(one, other) {
  return one !== null && ["from", "to", "foot", "top", "width", "height"].every((it) => one[it] === other[it]);
}

// The class of each block, and what the classes are called.
function kindsOf(track, colouring) {
  const { run, blocks } = track;
  const request = (name) => (at) => run.data[`request.${name}`][blocks.request[at]];
  if (colouring === "size") return sizeKinds(blocks);
  const value = request(colouring === "stack" ? "stack" : "stream");
  const of = new Uint16Array(blocks.count);
  for (let at = 0; at < blocks.count; at += 1) of[at] = value(at);
  const count = of.reduce((most, kind) => Math.max(most, kind), 0) + 1;
  const words = colouring === "stack" ? ["no stack"] : run.streams.map((raw, at) => `stream ${at} (${raw})`);
  const names = Array.from({ length: count }, (_, at) => words[at] ?? `stack ${at}`);
  return { of, names, ordered: false };
}

// Eight classes of sizes, each so many times as large as the one before.
function sizeKinds({ bytes, count }) {
  let [least, most] = [Infinity, 1];
  for (let at = 0; at < count; at += 1) {
    least = Math.min(least, bytes[at]);
    most = Math.max(most, bytes[at]);
  }
  const low = Math.floor(Math.log2(Math.min(least, most)));
  const step = Math.max(1, Math.ceil((Math.log2(most) - low + 1e-9) / CLASSES));
  const of = new Uint8Array(count);
  for (let at = 0; at < count; at += 1) {
    of[at] = Math.min(CLASSES - 1, Math.floor((Math.log2(bytes[at]) - low) / step));
  }
  const last = Math.min(CLASSES - 1, Math.floor((Math.log2(most) - low) / step));
  const names = Array.from({ length: last + 1 }, (_, at) => `from ${formatBytes(2 ** (low + at * step), 0)}`);
  return { of, names, ordered: true };
}
