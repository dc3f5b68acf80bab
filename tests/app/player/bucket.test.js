import assert from "node:assert/strict";
import { test } from "node:test";

import { bucketParts } from "../../../app/player/bucket.js";
import { layoutPool } from "../../../app/player/layout.js";
import { PARTS, stateAt, valueAt } from "../../../app/player/state.js";
import { bucketWords } from "../../../app/player/words.js";
import { SIDES } from "./golden.js";

// [{name, owner, slots}, ...] of slots [start, end), counted in what Python tells slot by slot.
function counted(runs, start, end) {
  const sums = new Map();
  let at = 0;
  for (const [owner, name, length] of runs) {
    const slots = Math.min(end, at + length) - Math.max(start, at);
    const key = `${name} ${owner}`;
    if (slots > 0 && name !== "free") sums.set(key, { name, owner, slots: slots + (sums.get(key)?.slots ?? 0) });
    at += length;
  }
  return [...sums.values()];
}

const byName = (parts) => [...parts].sort((a, b) => a.name.localeCompare(b.name) || a.owner - b.owner);

test("a bar holds what Python counts slot by slot in its blocks, whatever its size", () => {
  let numBars = 0;
  for (const [log, truth, name] of SIDES.filter(([{ cell_slots: size }]) => size)) {
    for (let frame = 0; frame < log.deltas.length; frame++) {
      if (!valueAt(log, "batch", frame)) continue;
      const state = stateAt(log, frame);
      const { slots } = truth[valueAt(log, "step", frame)];
      for (const width of [1, 3, 7].map((blocks) => blocks * log.cell_slots)) {
        for (let start = 0; start < log.pool; start += width) {
          const end = Math.min(start + width, log.pool);
          const parts = bucketParts(log, state, start, end);
          assert.deepEqual(byName(parts), byName(counted(slots, start, end)), `${name}, frame ${frame}, slot ${start}`);
          numBars += parts.length > 0;
        }
      }
    }
  }
  assert.ok(numBars > 1000);
});

test("the bars of a picture add up to the run's own ledger, cached and empty slots each in their class", () => {
  const seen = new Set();
  for (const [log, , name] of SIDES.filter(([{ cell_slots: size }]) => size)) {
    for (let frame = 0; frame < log.deltas.length; frame++) {
      const parts = bucketParts(log, stateAt(log, frame), 0, log.pool);
      for (const part of PARTS) {
        const sum = parts.filter((one) => one.name === part).reduce((total, { slots }) => total + slots, 0);
        assert.equal(sum, valueAt(log, part, frame), `${name}, ${part} at frame ${frame}`);
        if (sum) seen.add(part);
      }
    }
  }
  assert.deepEqual([...seen].sort(), [...PARTS].sort());
});

test("classes are stacked in their order, and in each the owner of most comes first", () => {
  const none = { refs: 1, live: 0, reserved: 0, internal: 0, rounding: 0, cached: 0 };
  const cells = new Map([
    [0, { ...none, owner: 3, live: 2, reserved: 2 }],
    [1, { ...none, owner: 9, live: 4 }],
    [3, { ...none, owner: -1, cached: 4 }],
  ]);
  assert.deepEqual(bucketParts({ cell_slots: 4 }, { cells }, 0, 16), [
    { name: "live", owner: 9, slots: 4 },
    { name: "live", owner: 3, slots: 2 },
    { name: "reserved", owner: 3, slots: 2 },
    { name: "cached", owner: -1, slots: 4 },
  ]);
  assert.deepEqual(bucketParts({ cell_slots: 4 }, { cells }, 8, 12), []);
});

test("the legend says what a bar is, where there are bars", () => {
  const sides = [{ cell_slots: 0 }, { cell_slots: 16 }];
  const layoutOf = (numBlocks) => layoutPool({ numSlots: numBlocks * 16, cellSlots: 16, width: 560, maxHeight: 330 });
  const layout = layoutOf(100_000);
  assert.match(bucketWords(layout, { sides }), new RegExp(`stands for ${layout.bucketSlots} slots, ${layout.bucketSlots / 16} blocks`));
  assert.equal(bucketWords(layoutOf(983), { sides }), "");
  assert.equal(bucketWords(layout, { sides: [sides[0]] }), "");
});
