// The picture of an address map, pixel by pixel: how much of each pixel was reserved, how much
// of it was in use, and by blocks of which colour. Blocks do not overlap, so that sums are
// exact averages, however many blocks share a pixel: no detail is chosen, none is lost.
//
// A picture is made in turns; meanwhile the map shows the last one, moved to where it belongs.

// A block is at least this high, in pixels: one that pins a segment must not vanish.
const LEAST_HIGH = 0.6;
// From this size on, in pixels, blocks have an edge.
const EDGED = 4;
// After so many blocks, and so many pixels, the clock is looked at.
const BLOCKS_A_LOOK = 512;
const PIXELS_A_LOOK = 40000;
// And after so many rows of mixed colours.
const ROWS_A_LOOK = 32;

class Raster {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    const pixels = width * height;
    this.ground = new Float32Array(pixels);
    this.cover = new Float32Array(pixels);
    this.red = new Float32Array(pixels);
    this.green = new Float32Array(pixels);
    this.blue = new Float32Array(pixels);
    this.image = new ImageData(width, height);
    this.touched = 0;
  }

  clear() {
    for (const plane of [this.ground, this.cover, this.red, this.green, this.blue]) plane.fill(0);
  }

  // Adds a rectangle, in pixels from the upper left, as ground.
  addGround({ left, top, right, bottom }) {
    this.each(left, top, right, bottom, 1, this.ground);
  }

  // Adds a rectangle in use, of a colour; `weight` of it is.
  addBlock({ left, top, right, bottom }, colour, weight) {
    let [upper, lower] = [top, bottom];
    if (lower - upper < LEAST_HIGH) {
      upper = (top + bottom - LEAST_HIGH) / 2;
      lower = upper + LEAST_HIGH;
    }
    this.each(left, upper, right, lower, weight, this.cover, colour);
    if (right - left >= EDGED && lower - upper >= EDGED) this.edge(left, upper, right, lower);
  }

  // Adds to a plane, for each pixel that a rectangle touches, the share of it that is covered;
  // and to the planes of colours, where there is one.
  each(left, top, right, bottom, weight, plane, colour) {
    const x0 = Math.max(0, left);
    const x1 = Math.min(this.width, right);
    const y0 = Math.max(0, top);
    const y1 = Math.min(this.height, bottom);
    if (x0 >= x1 || y0 >= y1) return;
    const first = Math.floor(x0);
    const last = Math.ceil(x1) - 1;
    const lowest = Math.ceil(y1) - 1;
    for (let y = Math.floor(y0); y <= lowest; y += 1) {
      const high = weight * (Math.min(y + 1, y1) - Math.max(y, y0));
      const row = y * this.width;
      for (let x = first; x <= last; x += 1) {
        const share = high * (Math.min(x + 1, x1) - Math.max(x, x0));
        plane[row + x] += share;
        if (!colour) continue;
        this.red[row + x] += share * colour[0];
        this.green[row + x] += share * colour[1];
        this.blue[row + x] += share * colour[2];
      }
    }
    this.touched += (lowest + 1 - Math.floor(y0)) * (last + 1 - first);
  }

  // Darkens the upper and the left rim of a block, so that neighbours stand apart.
  edge(left, top, right, bottom) {
    const [x0, x1] = [Math.max(0, Math.ceil(left)), Math.min(this.width, Math.floor(right))];
    const [y0, y1] = [Math.max(0, Math.ceil(top)), Math.min(this.height, Math.floor(bottom))];
    const darken = (at) => {
      this.red[at] *= 0.7;
      this.green[at] *= 0.7;
      this.blue[at] *= 0.7;
    };
    if (top >= 0) for (let x = x0; x < x1; x += 1) darken(y0 * this.width + x);
    if (left >= 0) for (let y = y0 + 1; y < y1; y += 1) darken(y * this.width + x0);
  }

  // Mixes the colours of rows `from` up to `to` into the image.
  resolve(from, to, paper, ground) {
    const { data } = this.image;
    for (let at = from * this.width; at < to * this.width; at += 1) {
      const cover = this.cover[at];
      const used = Math.min(1, cover);
      const scale = cover > 1 ? 1 / cover : 1;
      const idle = Math.max(0, Math.min(1, this.ground[at]) - used);
      const empty = 1 - used - idle;
      data[4 * at] = this.red[at] * scale + idle * ground[0] + empty * paper[0];
      data[4 * at + 1] = this.green[at] * scale + idle * ground[1] + empty * paper[1];
      data[4 * at + 2] = this.blue[at] * scale + idle * ground[2] + empty * paper[2];
      data[4 * at + 3] = 255;
    }
  }
}

// Draws what a track shows in a window into a raster, in turns; answers the image, or null
// where `stale()` says that nobody waits for it any more. `shapes` are rectangles on the axis in
// use, `look` the colours.
async function pictured(raster, shapes, window, look, stale) {
  const turn = new Turn();
  raster.clear();
  for (const [list, add] of [
    [shapes.mapped, (_, spot) => raster.addGround(spot)],
    [shapes.cells, (at, spot) => raster.addBlock(spot, look.colours[0], shapes.cells.share[at])],
    [shapes.blocks, (at, spot) => raster.addBlock(spot, look.colours[shapes.kinds[at]], 1)],
  ]) {
    const spot = { left: 0, top: 0, right: 0, bottom: 0 };
    const lies = placing(list, window, spot);
    for (let at = 0; at < list.count; at += 1) {
      if (lies(at)) add(at, spot);
      if (at % BLOCKS_A_LOOK !== 0 && raster.touched < PIXELS_A_LOOK) continue;
      raster.touched = 0;
      if (turn.over) await turn.rest();
      if (stale()) return null;
    }
  }
  for (let row = 0; row < window.height; row += ROWS_A_LOOK) {
    raster.resolve(row, Math.min(window.height, row + ROWS_A_LOOK), look.paper, look.ground);
    if (turn.over) await turn.rest();
    if (stale()) return null;
  }
  return raster.image;
}

// Puts into `spot` where rectangles of a list lie in a window, in pixels; answers whether they
// do. One spot for all: there are many rectangles.
function placing({ x0, x1, foot, bytes }, window, spot) {
  const across = window.width / (window.to - window.from);
  const upright = window.height / (window.top - window.foot);
  return (at) => {
    if (x0[at] >= window.to || x1[at] <= window.from) return false;
    if (foot[at] >= window.top || foot[at] + bytes[at] <= window.foot) return false;
    spot.left = (x0[at] - window.from) * across;
    spot.top = (window.top - foot[at] - bytes[at]) * upright;
    spot.right = (x1[at] - window.from) * across;
    spot.bottom = (window.top - foot[at]) * upright;
    return true;
  };
}
