import assert from "node:assert/strict";
import { test } from "node:test";

import { stateAt } from "../../../app/player/state.js";
import {
  byInterest, CLASS_WORDS, count, headline, leadWords, percent, poolWords, stepWords, stripWords, tableRuns,
  timelineWords, unbroken,
} from "../../../app/player/words.js";
import { CASES } from "./golden.js";

test("neighbouring blocks of a table are told as one run", () => {
  assert.deepEqual(tableRuns([4, 5, 6, 2, 9, 10]), [[0, 2, 4, 6], [3, 3, 2, 2], [4, 5, 9, 10]]);
  assert.deepEqual(tableRuns([]), []);
});

test("blocks given back stand in a table as runs of their own", () => {
  assert.deepEqual(tableRuns([-1, -1, 0, 1, -1, 5]), [[0, 1, -1, -1], [2, 3, 0, 1], [4, 4, -1, -1], [5, 5, 5, 5]]);
  const cells = new Map([[0, { live: 4, reserved: 0, internal: 0, rounding: 0, cached: 0 }]]);
  const log = { name: "paged", cell_slots: 4, owners: [0], pool: 16, columns: {} };
  const state = { tables: new Map([[0, [-1, -1, 0]]]), cells };
  assert.equal(stripWords(log, state, 0, ["r0"]), "Block table of r0, logical in physical block: 0 to 1 given back, 2 in 0.");
  assert.match(poolWords(log, 0, state, ["r0"]), /Most is held by r0 4\.$/);
});

test("a preemption is told before an admission, and equals in order", () => {
  const said = [["admit", 1, "a"], ["alloc", 1, "b"], ["preempt", 3, "c"], ["admit", 2, "d"]];
  assert.deepEqual(byInterest(said).map(([, , why]) => why), ["c", "a", "d", "b"]);
});

test("the headline names the side, the request and the reason", () => {
  const { replay } = CASES[0];
  const labels = replay.requests.map(([id]) => id);
  const [alarm] = replay.sides[1].alarms;
  const moment = replay.clock.frames[1].indexOf(alarm);
  const text = headline(replay, moment, labels, ["A", "B"]);
  assert.match(text, /B, paged: r2 is preempted: .*needs \d+ blocks?, \d+ free; request r2 .+\./);
});

test("the text alternative says who holds how much", () => {
  const { replay } = CASES[0];
  const labels = replay.requests.map(([id]) => id);
  const text = poolWords(replay.sides[0], 1, stateAt(replay.sides[0], 1), labels);
  assert.match(text, /^Memory of contiguous \(max\), 24 slots: 8 live \(33 %\).* Most is held by r0 16\.$/);
});

test("the timeline in words has the mean over its clock and the maximum of each class that there is", () => {
  const log = { name: "paged", source: "measured", pool: 100, alarms: [2], columns: { live: [0, 10, 40], free: [100, 90, 60] } };
  const words = timelineWords({ clock: { time: [0, 1, 4], frames: [[0, 1, 2]] }, sides: [log] }, 0);
  assert.equal(words, "paged (measured) from 0.000 s to 4.000 s, of 100 slots: live 8 (8 %) on average, 40 (40 %) at most; "
    + "free 93 (93 %) on average, 100 (100 %) at most. Preempted or rejected at 1 moment.");
});

test("the timeline in words names the most that Python's series has of each class", () => {
  for (const { replay, series } of CASES) {
    series.forEach((rows, side) => {
      const words = timelineWords(replay, side);
      for (const name of ["live", "reserved", "internal", "rounding", "external"]) {
        const most = Math.max(...rows.map((row) => row[name]));
        const told = new RegExp(`${CLASS_WORDS[name][0]} [^;]*, ${count(most)} \\([^)]*\\) at most`);
        if (most) assert.match(words, told);
      }
    });
  }
});

test("a frame without a batch says why nothing runs", () => {
  const [log] = CASES[2].replay.sides;
  assert.equal(stepWords(log, 0), "before the first step: all memory is free");
  assert.equal(stepWords(log, log.deltas.length - 1), "all done: nobody holds memory");
  assert.equal(stepWords(log, 1), "step 1: 1 sequence ran 5 tokens");
});

test("a share that is there is not told as nothing", () => {
  assert.equal(percent(0, 1000), "0 %");
  assert.equal(percent(4, 1000), "0.4 %");
  assert.equal(percent(500, 1000), "50 %");
});

test("a number and its unit stay on one line, in the player as in Python", () => {
  assert.equal(unbroken("paged wastes 7.2 % of 4 sequences, after 4.9 s"), "paged wastes 7.2\u00a0% of 4 sequences, after 4.9\u00a0s");
});

test("a stream of cache events has chains, not requests that fill slots", () => {
  const [log] = CASES[2].replay.sides;
  assert.match(leadWords({ sides: [log] }), /A colour is a request/);
  const stream = { ...log, summary: { ...log.summary, waste_percent: null } };
  assert.match(leadWords({ sides: [stream] }), /A colour is a chain of blocks/);
});
