// Puts the views together.

const INDEX = JSON.parse(document.getElementById("index").textContent);
const byId = (id) => document.getElementById(id);

class Views {
  constructor() {
    const several = INDEX.runs.length > 1;
    this.runs = INDEX.runs.map((told, at) => new Run(at, told));
    this.tracks = INDEX.tracks.map((told, at) => new Track(at, told, this.runs[told.run], several));
    this.axis = new Axis();
    const panels = byId("panels");
    this.maps = [new MapPanel(panels, this.axis), new MapPanel(panels, this.axis)];
    this.lines = ["memory", "external"].map((kind) => new LinesPanel(panels, this.axis, kind));
    this.moment = new Moment(byId("moment"), this.axis);
    this.failures = new Failures(this);
    this.axis.listen((what) => this.hear(what));
    onTheme(() => this.colour());
    this.controls();
  }

  get shown() {
    return this.axis.tracks;
  }

  controls() {
    const { axis } = this;
    const options = () => this.tracks.map((track, at) => new Option(track.label, at));
    byId("first").append(...options());
    byId("second").append(new Option("nothing", -1), ...options());
    byId("second").value = this.tracks.length > 1 ? "1" : "-1";
    for (const id of ["first", "second"]) byId(id).addEventListener("change", () => this.show());
    byId("mode").addEventListener("change", () => this.measure(byId("mode").value));
    byId("colouring").addEventListener("change", () => this.shape());
    byId("zoom-in").addEventListener("click", () => axis.zoom(KEY_ZOOM));
    byId("zoom-out").addEventListener("click", () => axis.zoom(1 / KEY_ZOOM));
    byId("whole").addEventListener("click", () => {
      for (const map of this.maps) map.level();
      axis.whole();
    });
    byId("next").addEventListener("click", () => this.failures.step(1));
    byId("previous").addEventListener("click", () => this.failures.step(-1));
    byId("views").addEventListener("keydown", (event) => {
      const typing = event.target.closest("select, input, textarea, summary");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      // Arrows and the like move a view only where it has the focus.
      const plot = event.target.closest(".plot");
      if (!plot && !["n", "p"].includes(event.key)) return;
      const view = this.maps.find((map) => map.plot === plot);
      if (keyed(event, axis, view, this.failures)) event.preventDefault();
    });
  }

  // Shows the chosen tracks.
  async show() {
    const chosen = [byId("first"), byId("second")].map((select) => this.tracks[select.value]);
    const tracks = chosen.filter((track, at) => track && chosen.indexOf(track) === at);
    await Promise.all(tracks.map((track) => track.load()));
    const mapped = tracks.some((track) => track.mapped);
    byId("colouring-label").hidden = !mapped;
    const timed = tracks.some((track) => track.run.timed);
    byId("mode").closest("label").hidden = !timed;
    if (!timed) this.axis.mode = "events";
    this.axis.show(tracks);
    for (const line of this.lines) line.show(tracks);
    await Promise.all(this.maps.map((map, at) => map.show(tracks[at], byId("colouring").value)));
    this.failures.list();
    this.moment.request();
  }

  async measure(mode) {
    this.axis.measure(mode);
    for (const line of this.lines) line.build();
    await this.shape();
  }

  async shape() {
    const maps = this.maps.filter((map) => !map.figure.hidden);
    await Promise.all(maps.map((map) => map.shape(byId("colouring").value)));
  }

  // The axis moved, or the cursor.
  hear(what) {
    const place = this.axis.cursorPlace;
    for (const map of this.maps) map.point(place);
    for (const line of this.lines) line.point(place);
    if (what !== "range") {
      this.moment.request();
      return;
    }
    [byId("panels").dataset.from, byId("panels").dataset.to] = [this.axis.from, this.axis.to];
    for (const map of this.maps) map.request();
    for (const line of this.lines) line.range();
  }

  colour() {
    for (const map of this.maps) map.colour();
    for (const line of this.lines) line.build();
    this.moment.request();
  }

  // Once the first pictures are whole.
  drawn() {
    const maps = this.maps.filter((map) => !map.figure.hidden);
    return Promise.all(maps.map((map) => new Promise((resolve) => {
      map.settled = () => {
        map.settled = null;
        resolve();
      };
      map.request();
    })));
  }
}

// The failures of the shown tracks: marks that can be jumped to.
class Failures {
  constructor(views) {
    this.views = views;
    this.at = -1;
  }

  // Lists them, track by track, in the order of their events.
  list() {
    this.all = this.views.shown.flatMap((track) =>
      [...track.failures].map((event, at) => ({ track, at, event, place: track.run.place(event, "time") })));
    this.all.sort((one, other) => one.place - other.place || one.event - other.event);
    this.at = -1;
    for (const id of ["next", "previous"]) byId(id).disabled = this.all.length === 0;
    const counts = this.views.shown.map((track) => `${formatCount(track.failed)} under ${track.label}`);
    byId("status").textContent = this.all.length > 0 ? `Failed requests: ${counts.join(", ")}.` : "No request failed.";
    byId("failures").hidden = this.all.length === 0;
    byId("failures").querySelector(".wide").replaceChildren(this.table());
  }

  // The first ones as a table whose rows jump.
  table() {
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const title of ["event", "policy", "asked", "why"]) head.append(told("th", title));
    const body = table.createTBody();
    this.all.slice(0, 200).forEach(({ track, at, event }, number) => {
      const words = failureWords(track, at);
      const row = body.insertRow();
      const button = told("button", formatCount(event));
      button.type = "button";
      button.addEventListener("click", () => this.jump(number));
      row.insertCell().append(button);
      for (const text of [track.label, words.asked, words.verdict]) row.insertCell().textContent = text;
    });
    if (this.all.length > 200) body.insertRow().append(told("td", `and ${formatCount(this.all.length - 200)} more`));
    return table;
  }

  // The next failure, or the one before.
  step(way) {
    if (!this.all?.length) return;
    const { length } = this.all;
    this.jump(this.at < 0 ? (way > 0 ? 0 : length - 1) : (this.at + way + length) % length);
  }

  jump(number) {
    this.at = number;
    const { track, at, event } = this.all[number];
    const { axis } = this.views;
    const first = axis.tracks[0].run;
    axis.jump(track.run === first ? event : first.eventAt(track.run.place(event, axis.mode), axis.mode));
    const words = failureWords(track, at);
    byId("status").textContent = `Failure ${formatCount(number + 1)} of ${formatCount(this.all.length)}, under ${track.label}: ` +
      `event ${formatCount(event)} asked for ${words.asked}; ${words.verdict}.`;
  }
}

async function start() {
  for (const note of document.querySelectorAll(".unscripted")) note.remove();
  startTheme();
  startPictures();
  if (INDEX.tracks.length > 0) {
    byId("stage").hidden = false;
    const views = new Views();
    await views.show();
    await views.drawn();
  }
  turnMs = TURN_MS;
  // How long it took from the opening of the page, for those who measure it.
  performance.mark("vramlab-drawn");
  document.documentElement.dataset.drawnMs = performance.now().toFixed(1);
}

start();
