// Where things are, in CSS pixels: pure arithmetic, no canvas.
//
// The pool is a ribbon of slots by address, cut into rows: slot s lies in row floor(s / perRow). All sides of
// a replay share one layout, so that equal places are equal addresses.

const ROW_GAP = 1;
const MAX_ROW = 34;
const MAX_SLOT = 44;
const LOOSE_ROW = 8; // rows high enough for textures
const TIGHT_ROW = 4; // when the pool is large
const CELL_SHAPE = 2.4; // width : height that a block should have
const SMALLEST_CELL = 2; // pixels; below that, neighbours are drawn as one bucket
const BUCKET = 4;
const FAR_SLOTS = 16; // a long step where no side has blocks

// `cellSlots` is the block size, or 0 where no side has blocks. `bucketSlots` is 0 where every slot is drawn.
export function layoutPool({ numSlots, cellSlots, width, maxHeight }) {
  const unit = cellSlots || 1;
  const shapeOf = (perRow) => {
    const rows = Math.ceil(numSlots / perRow);
    const rowHeight = Math.min(MAX_ROW, Math.floor(maxHeight / rows) - ROW_GAP);
    const slotWidth = width / perRow;
    return { perRow, rows, rowHeight, slotWidth, shape: ((cellSlots || 16) * slotWidth) / rowHeight };
  };
  const candidates = [];
  for (let perRow = unit; perRow < 2 * Math.max(numSlots, unit); perRow *= 2) {
    const candidate = shapeOf(perRow);
    if (candidate.rowHeight >= LOOSE_ROW && candidate.slotWidth <= MAX_SLOT) candidates.push(candidate);
  }
  const distance = (candidate) => Math.abs(Math.log(candidate.shape / CELL_SHAPE));
  let best = candidates.sort((a, b) => distance(a) - distance(b))[0];
  if (!best || best.slotWidth * unit < SMALLEST_CELL) {
    const rows = Math.max(1, Math.floor(maxHeight / (TIGHT_ROW + ROW_GAP)));
    best = shapeOf(Math.max(unit, Math.ceil(numSlots / rows / unit) * unit));
  }
  const isTooSmall = best.slotWidth * unit < SMALLEST_CELL;
  return {
    numSlots,
    unit,
    width,
    perRow: best.perRow,
    rows: best.rows,
    rowHeight: best.rowHeight,
    slotWidth: best.slotWidth,
    height: best.rows * (best.rowHeight + ROW_GAP),
    bucketSlots: isTooSmall ? Math.ceil(BUCKET / (best.slotWidth * unit)) * unit : 0,
  };
}

// The rectangles, one a row, of slots [start, start + length).
export function rangeRects(layout, start, length) {
  const rects = [];
  for (let slot = start; slot < start + length; ) {
    const row = Math.floor(slot / layout.perRow);
    const end = Math.min(start + length, (row + 1) * layout.perRow);
    const x = (slot - row * layout.perRow) * layout.slotWidth;
    const w = (end - slot) * layout.slotWidth;
    rects.push({ x, y: row * (layout.rowHeight + ROW_GAP), w, h: layout.rowHeight });
    slot = end;
  }
  return rects;
}

// The slot drawn at a point of the pool, or null beside it and in the gaps.
export function hit(layout, x, y) {
  const row = Math.floor(y / (layout.rowHeight + ROW_GAP));
  const column = Math.floor(x / layout.slotWidth);
  const isInRow = y - row * (layout.rowHeight + ROW_GAP) < layout.rowHeight;
  if (row < 0 || column < 0 || column >= layout.perRow || !isInRow) return null;
  const slot = row * layout.perRow + column;
  return slot < layout.numSlots ? slot : null;
}

// The slot to which an arrow key leads from `slot`: the next one or the next bar, with `isFar` the next block,
// or the one in the next row. A key that leads out of the pool leads nowhere.
export function slotAfter(layout, slot, key, isFar = false) {
  const near = layout.bucketSlots || 1;
  const far = Math.max(near, layout.unit > 1 ? layout.unit : FAR_SLOTS);
  const along = isFar ? far : near;
  const next = slot + { ArrowLeft: -along, ArrowRight: along, ArrowUp: -layout.perRow, ArrowDown: layout.perRow }[key];
  return next >= 0 && next < layout.numSlots ? next : slot;
}

// Slots [start, end) of the bucket around `slot`. Buckets do not cross rows.
export function bucketAround(layout, slot) {
  const row = Math.floor(slot / layout.perRow) * layout.perRow;
  const start = row + Math.floor((slot - row) / layout.bucketSlots) * layout.bucketSlots;
  const end = Math.min(start + layout.bucketSlots, row + layout.perRow, layout.numSlots);
  return { start, end };
}

// The last moment whose time is not after `time`; the first one at least.
export function momentAt(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

// Mean of each named column over `width` equal parts of the clock: {name: Float64Array(width)}.
export function timelineColumns({ columns, frames, times, names, width }) {
  const start = times[0];
  const span = times.at(-1) - start || 1;
  const means = Object.fromEntries(names.map((name) => [name, new Float64Array(width)]));
  for (let moment = 0; moment < times.length; moment++) {
    const from = ((times[moment] - start) / span) * width;
    const to = ((moment + 1 < times.length ? times[moment + 1] : times[moment]) - start) / span * width;
    for (let column = Math.floor(from); column < Math.min(width, to); column++) {
      const share = Math.min(column + 1, to) - Math.max(column, from);
      for (const name of names) means[name][column] += share * (columns[name]?.[frames[moment]] ?? 0);
    }
  }
  return means;
}

// Round times for an axis: at most `count` steps of 1, 2 or 5 times a power of ten.
export function ticks(start, end, count) {
  const rough = (end - start) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999999);
  const first = Math.ceil(start / step - 1e-9);
  const values = [];
  for (let index = first; index * step <= end + step * 1e-9; index++) values.push(index * step);
  return values.map((value) => Number(value.toPrecision(12)));
}
