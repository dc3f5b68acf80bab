// One block table as a strip of boxes above the pool, and the arrows from logical to physical: pure arithmetic,
// in CSS pixels.

import { HOLE, lengthOf } from "./state.js";
import { rangeRects } from "./layout.js";
import { tableRuns } from "./words.js";

export const STRIP_HEIGHT = 30;
export const STRIP_GAP = 28; // where arrows leave the strip
const SMALLEST_BOX = 22; // a short table's boxes are at least that wide
const MOST_ARROWS = 24;
const RANGE_INSET = 44; // right of the range's name

// Boxes of the table's cells, in logical order: [{index, cell, x, w, slots}]. They are as wide as in the pool
// where that fits, at least wide enough for a number where the table is short. Holes keep their place.
export function layoutStrip(layout, state, cells, cellSlots) {
  const lengths = cells.map((cell) => (cell === HOLE ? cellSlots : lengthOf(state.cells.get(cell))));
  const total = lengths.reduce((sum, length) => sum + length, 0) || 1;
  const usual = Math.max(layout.slotWidth, (SMALLEST_BOX * cells.length) / total);
  const slotWidth = Math.min(usual, layout.width / total);
  let x = 0;
  return cells.map((cell, index) => {
    const box = { index, cell, x, w: lengths[index] * slotWidth, slots: lengths[index] };
    x += box.w;
    return box;
  });
}

// What is drawn at `x` of the strip: {index, offset}, by logical block and slot in it; null past its end.
export function hitStrip(boxes, x) {
  const box = boxes.find((one) => x >= one.x && x < one.x + one.w);
  if (!box) return null;
  return { index: box.index, offset: Math.min(box.slots - 1, Math.floor(((x - box.x) / box.w) * box.slots)) };
}

// Arrows from boxes to cells: [{index, from: {x, y}, to: {x, y}}], y from the strip's top. Neighbours that lie
// side by side share one; of many, the first and `pointed` have one.
export function arrowsOf(layout, boxes, cellSlots, pointed = null) {
  const runs = cellSlots ? tableRuns(boxes.map(({ cell }) => cell)) : boxes.map(({ cell }, at) => [at, at, cell, cell]);
  const shown = runs.filter(([, , cell]) => cell !== HOLE).slice(0, MOST_ARROWS).map(([from, to]) => [from, to]);
  if (pointed !== null && boxes[pointed]?.cell !== HOLE) shown.push([pointed, pointed]);
  return shown.map(([first, last]) => {
    const [start, end] = [boxes[first], boxes[last]];
    const slot = start.cell * (cellSlots || 1);
    const [rect] = rangeRects(layout, slot, start.slots);
    // A range is pointed at where it begins: it may be longer than a row.
    const [fromX, toX] = cellSlots ? [(start.x + end.x + end.w) / 2, rect.x + rect.w / 2] : [start.x, rect.x].map((x) => x + Math.min(RANGE_INSET, start.w / 2));
    return { index: first, from: { x: fromX, y: STRIP_HEIGHT }, to: { x: toX, y: STRIP_HEIGHT + STRIP_GAP + rect.y } };
  });
}
