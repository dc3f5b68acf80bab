import assert from "node:assert/strict";
import { test } from "node:test";

import { stateAt } from "../../../app/player/state.js";
import { byInterest, headline, percent, poolWords, stepWords, tableRuns } from "../../../app/player/words.js";
import { CASES } from "./golden.js";

test("neighbouring blocks of a table are told as one run", () => {
  assert.deepEqual(tableRuns([4, 5, 6, 2, 9, 10]), [[0, 2, 4, 6], [3, 3, 2, 2], [4, 5, 9, 10]]);
  assert.deepEqual(tableRuns([]), []);
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
