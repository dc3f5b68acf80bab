import assert from "node:assert/strict";
import { test } from "node:test";

import { hit, layoutPool } from "../../../app/player/layout.js";
import { HOLE, lengthOf, stateAt } from "../../../app/player/state.js";
import { arrowsOf, hitStrip, layoutStrip, STRIP_GAP, STRIP_HEIGHT } from "../../../app/player/strip.js";
import { SIDES } from "./golden.js";

const layoutOf = (log) => layoutPool({ numSlots: log.pool, cellSlots: log.cell_slots, width: 600, maxHeight: 300 });

// [log, layout, state, cells] of every table of every frame.
function* tables() {
  for (const [log] of SIDES) {
    const layout = layoutOf(log);
    for (let frame = 0; frame < log.deltas.length; frame++) {
      const state = stateAt(log, frame);
      for (const cells of state.tables.values()) yield [log, layout, state, cells];
    }
  }
}

test("boxes stand in logical order, side by side, within the width", () => {
  let seen = 0;
  for (const [log, layout, state, cells] of tables()) {
    const boxes = layoutStrip(layout, state, cells, log.cell_slots);
    assert.deepEqual(boxes.map(({ cell }) => cell), cells);
    let x = 0;
    for (const box of boxes) {
      assert.ok(Math.abs(box.x - x) < 1e-6);
      x = box.x + box.w;
    }
    assert.ok(x <= layout.width + 1e-6);
    seen += boxes.length;
  }
  assert.ok(seen > 1000);
});

test("every slot of a box is hit where it is drawn, and nothing past the end", () => {
  for (const [log, layout, state, cells] of tables()) {
    const boxes = layoutStrip(layout, state, cells, log.cell_slots);
    for (const box of boxes) {
      const offset = box.slots - 1;
      const x = box.x + ((offset + 0.5) / box.slots) * box.w;
      assert.deepEqual(hitStrip(boxes, x), { index: box.index, offset });
    }
    const last = boxes.at(-1);
    if (last) assert.equal(hitStrip(boxes, last.x + last.w + 0.01), null);
    assert.equal(hitStrip(boxes, -0.01), null);
  }
});

test("every arrow starts under a box of its run and ends on the cell that the table names", () => {
  for (const [log, layout, state, cells] of tables()) {
    const boxes = layoutStrip(layout, state, cells, log.cell_slots);
    const arrows = arrowsOf(layout, boxes, log.cell_slots, cells.length ? cells.length - 1 : null);
    assert.ok(arrows.length >= Math.min(1, cells.length));
    assert.ok(arrows.every(({ index }) => cells[index] !== HOLE), "where a block was given back is nothing to point at");
    for (const { index, from, to } of arrows) {
      assert.ok(from.x >= boxes[index].x && from.x <= layout.width);
      const slot = hit(layout, to.x, to.y - STRIP_HEIGHT - STRIP_GAP);
      const start = cells[index] * (log.cell_slots || 1);
      assert.ok(slot !== null && start <= slot && slot < start + lengthOf(state.cells.get(cells[index])), `${slot} of ${start}`);
    }
    if (cells.length) assert.equal(arrows.at(-1).index, cells.length - 1, "what is pointed at has one always");
  }
});
