// The one axis that all views share: what is looked at, and where the cursor is.

// What of the span one step of a key moves or zooms.
const KEY_PAN = 0.15;
const KEY_ZOOM = 0.7;

class Axis {
  constructor() {
    this.mode = "time";
    this.tracks = [];
    this.listeners = [];
    this.from = 0;
    this.to = 1;
    // The event at the cursor, of the first track's run; null where there is none.
    this.cursor = null;
  }

  // Calls `hear("range" | "cursor")` after each change.
  listen(hear) {
    this.listeners.push(hear);
  }

  tell(what) {
    for (const hear of this.listeners) hear(what);
  }

  get end() {
    return Math.max(1, ...this.tracks.map((track) => track.run.place(track.run.events, this.mode)));
  }

  get least() {
    return this.mode === "time" ? 1000 : 2;
  }

  // Shows other tracks; what was looked at stays.
  show(tracks) {
    const whole = this.tracks.length === 0 || (this.from <= 0 && this.to >= this.end);
    this.tracks = tracks;
    if (whole) [this.from, this.to] = [0, this.end];
    this.set(this.from, this.to);
  }

  // Time or events; the same stretch of the first run stays in view.
  measure(mode) {
    if (mode === this.mode || this.tracks.length === 0) return;
    const run = this.tracks[0].run;
    const ends = [this.from, this.to].map((x) => run.place(run.eventAt(x, this.mode), mode));
    const whole = this.from <= 0 && this.to >= this.end;
    this.mode = mode;
    if (whole) this.set(0, this.end);
    else this.set(...ends);
  }

  set(from, to) {
    const span = Math.min(Math.max(to - from, this.least), this.end);
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(middle - span / 2, 0), this.end - span);
    [this.from, this.to] = [start, start + span];
    this.tell("range");
  }

  pan(share) {
    const span = this.to - this.from;
    this.set(this.from + share * span, this.to + share * span);
  }

  // Zooms by a factor below 1 (in) or above (out); `share` of the span stays where it is.
  zoom(factor, share = 0.5) {
    const span = this.to - this.from;
    const wanted = Math.min(Math.max(span * factor, this.least), this.end);
    const start = this.from + share * (span - wanted);
    this.set(start, start + wanted);
  }

  whole() {
    this.set(0, this.end);
  }

  // Puts the cursor on an event of the first run.
  point(event) {
    const events = this.tracks[0].run.events;
    this.cursor = event === null ? null : Math.min(Math.max(Math.round(event), 0), events - 1);
    this.tell("cursor");
  }

  // Where the cursor is on the axis.
  get cursorPlace() {
    return this.cursor === null ? null : this.tracks[0].run.place(this.cursor, this.mode);
  }

  // Looks at an event closely, and points at it.
  jump(event) {
    const place = this.tracks[0].run.place(event, this.mode);
    const span = Math.min(this.to - this.from, this.end / 20);
    this.set(place - span / 2, place + span / 2);
    this.point(event);
  }
}

// Lets pointers and the wheel move a view. `view` tells and takes: `box()`, the drawn part of
// the element; `hover(x, y)` and `leave()`; `lift(share)` and `stretch(factor, share)` for the
// upright axis, where it has one.
function navigate(element, axis, view) {
  const pointers = new Map();
  const share = (event) => {
    const box = view.box();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  element.addEventListener("wheel", (event) => {
    event.preventDefault();
    const factor = 1.0015 ** (event.deltaY || event.deltaX);
    const [x, y] = share(event);
    if (event.shiftKey && view.stretch) view.stretch(factor, 1 - y);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) axis.pan(event.deltaX / view.box().width);
    else axis.zoom(factor, Math.min(Math.max(x, 0), 1));
  }, { passive: false });
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pointers.set(event.pointerId, event);
    element.setPointerCapture(event.pointerId);
    view.leave?.();
  });
  element.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return view.hover(...share(event), event);
    if (pointers.size === 1) drag(axis, view, before, event);
    else pinch(axis, view, pointers, event);
    pointers.set(event.pointerId, event);
    return undefined;
  });
  const end = (event) => {
    const touched = pointers.delete(event.pointerId) && event.pointerType === "touch";
    if (touched && event.type === "pointerup") view.hover(...share(event), event);
  };
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
  element.addEventListener("pointerleave", () => pointers.size === 0 && view.leave?.());
  element.addEventListener("dblclick", () => {
    view.level?.();
    axis.whole();
  });
}

function drag(axis, view, before, event) {
  const box = view.box();
  const [right, down] = [event.clientX - before.clientX, event.clientY - before.clientY];
  if (right !== 0) axis.pan(-right / box.width);
  if (down !== 0 && view.lift) view.lift(down / box.height);
}

// Two fingers: the point between them stays, their distance is the zoom.
function pinch(axis, view, pointers, event) {
  const [other] = [...pointers.values()].filter((it) => it.pointerId !== event.pointerId);
  const before = pointers.get(event.pointerId);
  const box = view.box();
  const apart = (one) => Math.max(20, Math.abs(one.clientX - other.clientX));
  const middle = (event.clientX + other.clientX) / 2;
  axis.zoom(apart(before) / apart(event), (middle - box.left) / box.width);
}

// What the keys do; answers whether one was meant.
function keyed(event, axis, view, failures) {
  const upright = (way) => {
    if (event.shiftKey) view?.stretch?.(way > 0 ? KEY_ZOOM : 1 / KEY_ZOOM, 0.5);
    else view?.lift?.(way * KEY_PAN);
  };
  const acts = {
    ArrowLeft: () => axis.pan(-KEY_PAN),
    ArrowRight: () => axis.pan(KEY_PAN),
    ArrowUp: () => upright(1),
    ArrowDown: () => upright(-1),
    "+": () => axis.zoom(KEY_ZOOM),
    "=": () => axis.zoom(KEY_ZOOM),
    "-": () => axis.zoom(1 / KEY_ZOOM),
    0: () => {
      view?.level?.();
      axis.whole();
    },
    "[": () => axis.point((axis.cursor ?? 0) - 1),
    "]": () => axis.point((axis.cursor ?? -1) + 1),
    n: () => failures.step(1),
    p: () => failures.step(-1),
  };
  const act = acts[event.key];
  act?.();
  return act !== undefined;
}
