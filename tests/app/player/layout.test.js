import assert from "node:assert/strict";
import { test } from "node:test";

import {
  bucketAround, hit, layoutPool, momentAt, rangeRects, slotAfter, ticks, timelineColumns,
} from "../../../app/player/layout.js";
import { CASES } from "./golden.js";

const POOLS = [
  { numSlots: 1, cellSlots: 1 },
  { numSlots: 24, cellSlots: 4 },
  { numSlots: 97, cellSlots: 0 },
  { numSlots: 4096, cellSlots: 16 },
  { numSlots: 15728, cellSlots: 16 },
  { numSlots: 15731, cellSlots: 0 },
  { numSlots: 16000 * 16, cellSlots: 16 },
  { numSlots: 100000 * 16, cellSlots: 16 },
];
const layouts = POOLS.flatMap((pool) =>
  [560, 360].map((width) => [layoutPool({ ...pool, width, maxHeight: 330 }), pool]),
);

test("the middle of a slot's rectangle hits that slot", () => {
  for (const [layout, { numSlots }] of layouts) {
    for (let slot = 0; slot < numSlots; slot += Math.ceil(numSlots / 997)) {
      const [rect] = rangeRects(layout, slot, 1);
      assert.equal(hit(layout, rect.x + rect.w / 2, rect.y + rect.h / 2), slot, `slot ${slot} of ${numSlots}`);
    }
  }
});

test("beside the pool, in the gaps and behind the last slot nothing is hit", () => {
  const layout = layoutPool({ numSlots: 97, cellSlots: 0, width: 560, maxHeight: 330 });
  assert.equal(hit(layout, -1, 5), null);
  assert.equal(hit(layout, 561, 5), null);
  assert.equal(hit(layout, 5, layout.height + 1), null);
  assert.equal(hit(layout, 5, layout.rowHeight + 0.5), null);
  const [last] = rangeRects(layout, 96, 1);
  assert.equal(hit(layout, last.x + last.w + 1, last.y + 1), null);
});

test("the pool stays in its box", () => {
  for (const [layout, { numSlots }] of layouts) {
    assert.ok(layout.height <= 330, `${numSlots} slots are ${layout.height} high`);
    for (const { x, y, w, h } of rangeRects(layout, 0, numSlots)) {
      assert.ok(x >= 0 && x + w <= layout.width + 1e-6 && y >= 0 && y + h <= layout.height);
    }
  }
});

test("the rectangles of a range cover as many slots as it has, and a block never breaks across rows", () => {
  for (const [layout, { numSlots, cellSlots }] of layouts) {
    const covered = rangeRects(layout, 0, numSlots).reduce((sum, { w }) => sum + w / layout.slotWidth, 0);
    assert.ok(Math.abs(covered - numSlots) < 1e-3);
    if (cellSlots) assert.equal(layout.perRow % cellSlots, 0);
  }
});

test("slot by slot where it fits, in buckets of whole blocks where it does not", () => {
  const at = (numBlocks) => layoutPool({ numSlots: numBlocks * 16, cellSlots: 16, width: 560, maxHeight: 330 });
  assert.equal(at(983).bucketSlots, 0);
  assert.equal(at(16000).bucketSlots, 0);
  const layout = at(100000);
  assert.ok(layout.bucketSlots > 16 && layout.bucketSlots % 16 === 0);
  let end = 0;
  for (let slot = 0; slot < layout.numSlots; slot = end) {
    const bucket = bucketAround(layout, slot);
    assert.equal(bucket.start, end, "buckets follow each other without a hole");
    ({ end } = bucket);
  }
  assert.equal(end, layout.numSlots);
});

test("arrow keys lead from slot to slot, from block to block and from row to row, never out of the pool", () => {
  const layout = layoutPool({ numSlots: 4096, cellSlots: 16, width: 560, maxHeight: 330 });
  const { perRow } = layout;
  assert.equal(slotAfter(layout, 20, "ArrowRight"), 21);
  assert.equal(slotAfter(layout, 20, "ArrowLeft"), 19);
  assert.equal(slotAfter(layout, 20, "ArrowRight", true), 36);
  assert.equal(slotAfter(layout, 20, "ArrowDown"), 20 + perRow);
  assert.equal(slotAfter(layout, 20 + perRow, "ArrowUp", true), 20);
  for (const key of ["ArrowLeft", "ArrowUp"]) assert.equal(slotAfter(layout, 0, key), 0);
  for (const key of ["ArrowRight", "ArrowDown"]) assert.equal(slotAfter(layout, 4095, key), 4095);
  const ranges = layoutPool({ numSlots: 97, cellSlots: 0, width: 560, maxHeight: 330 });
  assert.equal(slotAfter(ranges, 3, "ArrowRight", true), 19);
});

test("where a bar stands for several blocks, an arrow key leads to the next bar", () => {
  const layout = layoutPool({ numSlots: 100000 * 16, cellSlots: 16, width: 560, maxHeight: 330 });
  for (const isFar of [false, true]) {
    const next = slotAfter(layout, 5, "ArrowRight", isFar);
    assert.equal(bucketAround(layout, next).start, bucketAround(layout, 5).end);
  }
});

test("the moment at a time is the last one not after it", () => {
  const times = [0, 1, 1, 2, 5];
  assert.equal(momentAt(times, -3), 0);
  assert.equal(momentAt(times, 0.5), 0);
  assert.equal(momentAt(times, 1), 2);
  assert.equal(momentAt(times, 4.9), 3);
  assert.equal(momentAt(times, 99), 4);
});

test("the classes of the timeline add up to the pool in every column", () => {
  const names = ["live", "reserved", "internal", "rounding", "cached", "external", "free"];
  for (const { replay } of CASES) {
    replay.sides.forEach((log, side) => {
      const means = timelineColumns({
        columns: log.columns, frames: replay.clock.frames[side], times: replay.clock.time, names, width: 300,
      });
      for (let column = 0; column < 300; column++) {
        const sum = names.reduce((total, name) => total + means[name][column], 0);
        assert.ok(Math.abs(sum - log.pool) < 1e-6 * log.pool, `column ${column}: ${sum} of ${log.pool}`);
      }
    });
  }
});

test("an axis has round times inside its span", () => {
  assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(ticks(0, 0.3, 3), [0, 0.1, 0.2, 0.3]);
  assert.deepEqual(ticks(3, 3, 4), [3]);
});
