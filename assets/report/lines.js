// Curves over time, drawn by uPlot: per pixel the least and the greatest value of the events
// that fall on it, so that no spike is lost and no more is drawn than can be seen.

// What the curves of memory are called, and their colours, the same as in every plot.
const MEMORY = [["reserved", "#e69f00"], ["occupied", "#0072b2"], ["requested", "#009e73"]];
// How wide a column of the curves is, whose extremes are drawn.
const PIXELS_A_COLUMN = 1.5;
// A policy beside another is dashed.
const BESIDE = [7, 4];

class LinesPanel {
  constructor(host, axis, kind) {
    this.axis = axis;
    this.kind = kind;
    this.width = 1;
    this.figure = panel(host, "lines");
    this.plot = this.figure.querySelector(".plot");
    this.needle = needle(this.plot);
    navigate(this.plot, axis, this);
    this.fitting = () => this.fit();
    this.redrawing = () => this.redraw();
    new ResizeObserver(() => soon(this.fitting)).observe(this.plot);
  }

  // Shows tracks side by side.
  show(tracks) {
    this.tracks = tracks;
    this.build();
  }

  // Builds anew where the room has changed.
  fit() {
    const { clientWidth: width, clientHeight: height } = this.plot;
    if (this.chart?.width !== width || this.chart?.height !== height) this.build();
  }

  // The curves: of what, in which look.
  curves() {
    const curve = (track, at, [name, colour]) => ({
      track,
      name,
      label: this.tracks.length > 1 ? `${name}, ${track.label}` : name,
      colour: seen(colour),
      dash: at > 0 ? BESIDE : [],
    });
    if (this.kind === "memory") {
      return this.tracks.flatMap((track, at) => MEMORY.map((one) => curve(track, at, one)));
    }
    return this.tracks.map((track, at) => ({
      ...curve(track, at, ["external", track.colour]),
      label: track.label,
    }));
  }

  build() {
    this.chart?.destroy();
    this.chart = null;
    const { clientWidth: width, clientHeight: height } = this.plot;
    if (!this.tracks?.length || width < 100) return;
    const memory = this.kind === "memory";
    const title = memory ? "Memory" : "External fragmentation (1 - largest free / free)";
    this.figure.querySelector(".name").textContent = title;
    this.plot.setAttribute("aria-label", `${title} over time under ${this.tracks.map((it) => it.label).join(" and ")}`);
    this.width = Math.max(1, width - GUTTER.left - GUTTER.right);
    this.shown = this.curves();
    this.places = this.tracks.map((track) => placesOf(track, this.axis.mode));
    this.highest = memory ? highest(this.tracks) : 1e6;
    this.listCurves();
    this.chart = new uPlot(this.options(width, height), this.sampled(), this.plot);
    this.point(this.axis.cursorPlace);
  }

  listCurves() {
    const entry = ({ label, colour, dash }) => {
      const item = document.createElement("span");
      const swatch = item.appendChild(document.createElement("i"));
      swatch.className = dash.length > 0 ? "dashed" : "solid";
      swatch.style.color = colour;
      item.append(label);
      return item;
    };
    this.figure.querySelector(".legend").replaceChildren(...this.shown.map(entry));
  }

  options(width, height) {
    const { axis } = this;
    const memory = this.kind === "memory";
    const line = { stroke: themed("soft"), font: FONT, grid: { stroke: themed("grid"), width: 1 }, ticks: { stroke: themed("line"), size: 4 } };
    const curve = (greatest) => ({ colour, dash }) => ({
      stroke: colour, dash, width: greatest ? 1.5 : 0, points: { show: false }, spanGaps: false,
    });
    return {
      width,
      height,
      padding: [GUTTER.top, GUTTER.right, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, range: () => [axis.from, axis.to] },
        y: { range: () => [0, this.highest] },
      },
      axes: [
        { ...line, size: GUTTER.bottom, gap: 3, splits: () => ticks(axis.from, axis.to, this.width / 90, 10), values: (_, at) => axisLabels(axis, at) },
        { ...line, size: GUTTER.left, gap: 4, splits: () => ticks(0, this.highest, height / 44, memory ? 2 : 10), values: (_, at) => (memory ? byteLabels(at) : at.map((ppm) => `${ppm / 1e4} %`)) },
      ],
      series: [{}, ...this.shown.map(curve(true)), ...this.shown.map(curve(false))],
      bands: this.shown.map(({ colour }, at) => ({
        series: [at + 1, at + 1 + this.shown.length], fill: `${colour}44`,
      })),
      hooks: { draw: [(chart) => this.mark(chart)] },
    };
  }

  // A pair of numbers for each curve and pixel.
  sampled() {
    const columns = Math.max(50, Math.round(this.width / PIXELS_A_COLUMN));
    const { from, to } = this.axis;
    const xs = Array.from({ length: columns }, (_, at) => from + ((at + 0.5) / columns) * (to - from));
    const pairs = this.shown.map((curve) => {
      const places = this.places[this.tracks.indexOf(curve.track)];
      return extremes(curve, places, from, (to - from) / columns, columns);
    });
    return [xs, ...pairs.map((pair) => pair[1]), ...pairs.map((pair) => pair[0])];
  }

  // Failures of all tracks, and the capacity where it is near.
  mark(chart) {
    const { ctx, bbox } = chart;
    const scale = devicePixelRatio;
    ctx.save();
    ctx.scale(scale, scale);
    const [left, top] = [bbox.left / scale, bbox.top / scale];
    const [width, height] = [bbox.width / scale, bbox.height / scale];
    for (const track of this.tracks) {
      const x = (event) => left + ((track.run.place(event, this.axis.mode) - this.axis.from) / (this.axis.to - this.axis.from)) * width;
      failureMarks(ctx, track, x, left, left + width, top, height);
      const y = top + (1 - track.capacity_bytes / this.highest) * height;
      if (this.kind !== "memory" || y < top) continue;
      ctx.fillStyle = themed("soft");
      ctx.fillRect(left, Math.round(y), width, 1);
      ctx.font = FONT;
      ctx.textAlign = "right";
      ctx.textBaseline = "bottom";
      ctx.fillText("capacity", left + width - 4, y - 2);
    }
    ctx.restore();
  }

  range() {
    soon(this.redrawing);
  }

  redraw() {
    this.chart?.setData(this.sampled());
  }

  box() {
    const box = this.plot.getBoundingClientRect();
    return { left: box.left + GUTTER.left, top: box.top, width: this.width, height: Math.max(1, box.height) };
  }

  point(place) {
    moveNeedle(this.needle, this.axis, place, this.width);
  }

  hover(x) {
    if (x < 0 || x > 1) return;
    const { axis } = this;
    axis.point(axis.tracks[0].run.eventAt(axis.from + x * (axis.to - axis.from), axis.mode));
  }
}

// Where the buckets of a track begin and end on an axis.
function placesOf({ data, run }, mode) {
  const place = (event) => run.place(event, mode);
  return { from: data["time.first"].map(place), end: run.place(data["time.last"].at(-1) ?? 0, mode) };
}

// The top of the scale of memory: the greatest value there is, and the capacity if it is near.
function highest(tracks) {
  let most = 1;
  for (const { data } of tracks) {
    for (let at = 0; at < data.reserved.length; at += 1) {
      most = Math.max(most, data.reserved[at] + data["reserved.above"][at]);
    }
  }
  const near = tracks.map((track) => track.capacity_bytes).filter((bytes) => bytes < 1.3 * most);
  return 1.06 * Math.max(most, ...near);
}

// The least and the greatest value in each of `columns` steps along the axis.
function extremes({ track, name }, places, from, step, columns) {
  const { low, high } = track.range(name);
  const [least, greatest] = [new Array(columns).fill(null), new Array(columns).fill(null)];
  let first = Math.max(0, placeOf(places.from, from));
  for (let column = 0; column < columns; column += 1) {
    const start = from + column * step;
    if (start > places.end) break;
    while (first + 1 < places.from.length && places.from[first + 1] <= start) first += 1;
    for (let at = first; at < places.from.length && (at === first || places.from[at] < start + step); at += 1) {
      if (Number.isNaN(low[at])) continue;
      if (least[column] === null || low[at] < least[column]) least[column] = low[at];
      if (greatest[column] === null || high[at] > greatest[column]) greatest[column] = high[at];
    }
  }
  return [least, greatest];
}
