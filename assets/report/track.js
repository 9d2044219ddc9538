// Runs and tracks, as they are unpacked: what a trace asked for, and what became of it under
// one policy.

// The last place in ascending `values` that is not above `value`; -1 where there is none.
function placeOf(values, value) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// One trace: its requests, its times, its words.
class Run {
  constructor(number, told) {
    Object.assign(this, told);
    this.number = number;
  }

  async load() {
    this.loading ??= columnsOf(`run-${this.number}`, this.columns).then((columns) => {
      this.data = columns;
      const events = columns["clock.event"];
      this.clockStep = events.length > 1 ? events[1] - events[0] : 1;
    });
    await this.loading;
  }

  // Stacks, names and labels; unpacked when they are first asked for.
  async words() {
    this.said ??= jsonOf(`words-${this.number}`).then((words) => {
      this.known = words;
      return words;
    });
    return this.said;
  }

  // Where an event lies on an axis of times or of events.
  place(event, mode) {
    if (mode === "events") return event;
    const events = this.data["clock.event"];
    const times = this.data["clock.ns"];
    if (events.length === 0) return event;
    // Most clocks tick evenly: then the place is known without a search.
    let at = Math.min(Math.floor(event / this.clockStep), events.length - 1);
    if (events[at] > event || (at + 1 < events.length && events[at + 1] <= event)) {
      at = Math.max(0, placeOf(events, event));
    }
    if (at + 1 >= events.length || events[at] === event) return times[at];
    const share = (event - events[at]) / (events[at + 1] - events[at]);
    return times[at] + share * (times[at + 1] - times[at]);
  }

  // The event at a place of the axis.
  eventAt(place, mode) {
    if (mode === "events") return Math.floor(Math.min(Math.max(place, 0), this.events - 1));
    const events = this.data["clock.event"];
    const times = this.data["clock.ns"];
    const at = placeOf(times, place);
    if (at < 0) return 0;
    if (at + 1 >= events.length) return this.events - 1;
    const share = (place - times[at]) / (times[at + 1] - times[at]);
    return Math.floor(events[at] + share * (events[at + 1] - events[at]));
  }
}

// What happened in a run under one policy.
class Track {
  constructor(number, told, run, several) {
    Object.assign(this, told);
    this.number = number;
    this.run = run;
    this.label = several ? `${run.name}: ${told.policy}` : told.policy;
  }

  async load() {
    await this.run.load();
    this.loading ??= columnsOf(`track-${this.number}`, this.columns).then(async (columns) => {
      this.data = columns;
      this.failures = columns["failure.event"];
      if (this.mapped) await this.buildBlocks();
    });
    await this.loading;
  }

  // From what the request tells and where the policy differs from it.
  async buildBlocks() {
    const { data, run } = this;
    const requests = data["block.request"];
    const count = requests.length;
    const block = {
      count,
      from: new Float64Array(count),
      to: new Float64Array(count),
      place: data["block.place"],
      bytes: data["block.waste"],
      request: requests,
    };
    const turn = new Turn();
    for (let at = 0; at < count; at += 1) {
      const request = requests[at];
      const asked = run.data["request.from"][request];
      block.from[at] = asked + data["block.later"][at];
      block.to[at] = asked + run.data["request.life"][request] - data["block.earlier"][at];
      block.bytes[at] += run.data["request.bytes"][request];
      if ((at & 4095) === 0 && turn.over) await turn.rest();
    }
    this.blocks = block;
    const bands = data["band.place"];
    const last = bands.length - 1;
    this.height = last < 0 ? 1 : bands[last] + data["band.bytes"][last];
  }

  // The address at a place of the upright axis; null between bands.
  addressAt(place) {
    const at = placeOf(this.data["band.place"], place);
    if (at < 0) return null;
    const into = place - this.data["band.place"][at];
    return into < this.data["band.bytes"][at] ? this.data["band.address"][at] + into : null;
  }

  // The least and the greatest value of a series in each bucket.
  range(name) {
    const { data } = this;
    this.ranges ??= { external: { low: data["external.min"], high: data["external.max"] } };
    this.ranges[name] ??= {
      low: data[name].map((last, at) => last - data[`${name}.below`][at]),
      high: data[name].map((last, at) => last + data[`${name}.above`][at]),
    };
    return this.ranges[name];
  }

  // The bucket of the timeline that an event falls into.
  bucketAt(event) {
    return Math.max(0, placeOf(this.data["time.first"], event));
  }

  // The block in use at an event and a place, within some slack of both; null where none is.
  blockAt(event, place, slackEvents, slackBytes) {
    const { from, to, place: foot, bytes, count } = this.blocks;
    let best = null;
    let nearest = Infinity;
    for (let at = 0; at < count; at += 1) {
      if (from[at] > event + slackEvents || to[at] < event - slackEvents) continue;
      if (foot[at] > place + slackBytes || foot[at] + bytes[at] < place - slackBytes) continue;
      const aside = Math.max(from[at] - event, event - to[at], 0) / (slackEvents || 1);
      const above = Math.max(foot[at] - place, place - foot[at] - bytes[at], 0) / (slackBytes || 1);
      if (aside + above < nearest) [best, nearest] = [at, aside + above];
    }
    return best;
  }

  // All that is known of a block.
  async blockTold(at) {
    const { run, blocks } = this;
    const request = blocks.request[at];
    const words = await run.words();
    const stack = run.data["request.stack"][request];
    return {
      name: words.names[request] ?? `allocation ${formatCount(run.data["request.ordinal"][request])}`,
      requested: run.data["request.bytes"][request],
      bytes: blocks.bytes[at],
      address: this.addressAt(blocks.place[at]),
      from: blocks.from[at],
      to: blocks.to[at],
      kept: blocks.to[at] >= run.events,
      nanos: run.place(blocks.to[at], "time") - run.place(blocks.from[at], "time"),
      stream: run.data["request.stream"][request],
      stack: stack > 0 ? words.stacks[stack - 1] : [],
    };
  }
}
