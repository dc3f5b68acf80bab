import assert from "node:assert/strict";
import { test } from "node:test";

import {
  advance, applyDelta, cellAtSlot, classAt, emptyState, lengthOf, stateAt, valueAt,
} from "../../../app/player/state.js";
import { CASES, SIDES } from "./golden.js";

const numFrames = (log) => log.deltas.length;
const isStep = (log, frame) => valueAt(log, "batch", frame) > 0;

// [owner, class, slots in a row], read slot by slot as the pointer does.
function slotsOf(log, state) {
  const runs = [];
  for (let slot = 0; slot < log.pool; slot++) {
    const found = cellAtSlot(log, state, slot);
    const [owner, name] = found ? [found.content.owner, classAt(found.content, slot - found.start)] : [-1, "free"];
    const last = runs.at(-1);
    if (last && last[0] === owner && last[1] === name) last[2] += 1;
    else runs.push([owner, name, 1]);
  }
  return runs;
}

// A state as plain data, so that two can be compared. The order of a Map is no part of it.
function plain(state) {
  const sorted = (map) => [...map].sort(([a], [b]) => a - b);
  return Object.fromEntries(
    Object.entries(state).map(([name, value]) => [name, value instanceof Map ? sorted(value) : value]),
  );
}

test("every slot of every step has the owner and the class that Python tells slot by slot", () => {
  for (const [log, truth, name] of SIDES) {
    for (let frame = 0; frame < numFrames(log); frame++) {
      if (!isStep(log, frame)) continue;
      const step = valueAt(log, "step", frame);
      assert.deepEqual(slotsOf(log, stateAt(log, frame)), truth[step].slots, `${name}, step ${step}`);
    }
  }
});

test("every queue of every step is Python's", () => {
  for (const [log, truth, name] of SIDES) {
    for (let frame = 0; frame < numFrames(log); frame++) {
      if (!isStep(log, frame)) continue;
      const { waiting, running, swapped } = stateAt(log, frame);
      const { slots, ...queues } = truth[valueAt(log, "step", frame)];
      assert.deepEqual({ waiting, running, swapped }, queues, `${name}, frame ${frame}`);
    }
  }
});

test("the cells add up to the ledger of the run at every frame", () => {
  for (const [log, , name] of SIDES) {
    for (let frame = 0; frame < numFrames(log); frame++) {
      const cells = [...stateAt(log, frame).cells.values()];
      for (const part of ["live", "reserved", "internal", "rounding", "cached"]) {
        const sum = cells.reduce((total, content) => total + content[part], 0);
        assert.equal(sum, valueAt(log, part, frame), `${name}, ${part} at frame ${frame}`);
      }
    }
  }
});

test("a keyframe is what folding every delta from the start gives", () => {
  for (const [log, , name] of SIDES) {
    const state = emptyState();
    for (let frame = 0; frame < numFrames(log); frame++) {
      applyDelta(state, log.deltas[frame], log);
      state.frame = frame;
      assert.deepEqual(plain(stateAt(log, frame)), plain(state), `${name}, frame ${frame}`);
    }
  }
});

test("stepping on, back and leaping show the same state as going there at once", () => {
  for (const [log, , name] of SIDES) {
    const last = numFrames(log) - 1;
    const path = [0, 1, 2, 1, last, Math.max(0, last - 3), last, 0, Math.min(70, last), Math.min(71, last)];
    let state = null;
    for (const frame of path) {
      ({ state } = advance(log, state, frame, () => {}));
      assert.deepEqual(plain(state), plain(stateAt(log, frame)), `${name}, frame ${frame} of ${path}`);
    }
  }
});

test("stepping on names every cell that looks different", () => {
  for (const [log, , name] of SIDES) {
    let before = stateAt(log, 0);
    let state = stateAt(log, 0);
    for (let frame = 1; frame < numFrames(log); frame++) {
      const heard = new Set();
      ({ state } = advance(log, state, frame, (cell) => heard.add(cell)));
      const now = stateAt(log, frame);
      for (const cell of new Set([...before.cells.keys(), ...now.cells.keys()])) {
        const [old, young] = [before.cells.get(cell), now.cells.get(cell)];
        const isSame = old && young && JSON.stringify(old) === JSON.stringify(young);
        assert.ok(isSame || heard.has(cell), `${name}, frame ${frame}: cell ${cell} changed unheard`);
      }
      before = now;
    }
  }
});

test("nothing is held while nothing is to do", () => {
  const [log] = CASES[2].replay.sides;
  const resting = log.deltas.map((_, frame) => frame).filter((frame) => !isStep(log, frame));
  assert.ok(resting.length >= 3, "before the start, between the two requests, and at the end");
  for (const frame of resting) assert.equal(stateAt(log, frame).cells.size, 0);
});

test("the preempted request is told, with the numbers, at the step in which it happens", () => {
  const paged = CASES[0].replay.sides[1];
  const [frame] = paged.alarms;
  const [, request, why] = paged.said[frame].find(([kind]) => kind === "preempt");
  assert.equal(request, 2);
  assert.match(why, /needs \d+ blocks?, \d+ free/);
  assert.deepEqual(stateAt(paged, frame).waiting, [2]);
});

test("both sides of one moment have finished their last step by then, and their next one later", () => {
  for (const { replay } of CASES) {
    const { time, frames } = replay.clock;
    assert.ok(time.every((now, moment) => moment === 0 || time[moment - 1] <= now), "time never runs back");
    frames.forEach((shown, side) => {
      assert.equal(shown[0], 0);
      assert.equal(shown.at(-1), replay.sides[side].deltas.length - 1, "the last moment shows the last frame");
      assert.ok(shown.every((frame, moment) => moment === 0 || [0, 1].includes(frame - shown[moment - 1])));
    });
  }
});

test("a cell's length is the sum of its classes, and its classes come in order", () => {
  const content = { live: 2, reserved: 1, internal: 1, rounding: 1, cached: 0 };
  assert.equal(lengthOf(content), 5);
  const classes = [0, 1, 2, 3, 4].map((offset) => classAt(content, offset));
  assert.deepEqual(classes, ["live", "live", "reserved", "internal", "rounding"]);
});
