import assert from "node:assert/strict";
import { test } from "node:test";

import { chromeTraceOf, csvOf, linesOf, pageOf } from "../../../app/player/export.js";
import { QUEUES, valueAt } from "../../../app/player/state.js";
import { CASES } from "./golden.js";

test("the numbers are those that Python writes as --series", () => {
  for (const { replay, series } of CASES) {
    const [head, ...rows] = csvOf(replay).trim().split("\n").map((line) => line.match(/("[^"]*"|[^,]+)/g));
    const expected = series.flatMap((own, side) => own.map((row) => [replay.sides[side].name, row]));
    assert.equal(rows.length, expected.length);
    rows.forEach((row, at) => {
      const [name, truth] = expected[at];
      assert.equal(JSON.parse(row[0]), name);
      assert.equal(row[head.indexOf("source")], "simulated");
      for (const [column, value] of Object.entries(truth)) {
        assert.ok(Math.abs(Number(row[head.indexOf(column)]) - value) <= 1e-6, `${column} of row ${at}`);
      }
    });
  }
});

test("the lines tell every event once, in order, and every step with its ledger", () => {
  for (const { replay } of CASES) {
    const lines = linesOf(replay).trim().split("\n").map((line) => JSON.parse(line));
    const told = replay.sides.flatMap((log) => log.said.flat());
    assert.deepEqual(lines.filter(({ kind }) => kind !== "step").map(({ kind, why }) => [kind, why]), told.map(([kind, , why]) => [kind, why]));
    const steps = lines.filter(({ kind }) => kind === "step");
    assert.equal(steps.length, replay.sides.reduce((sum, { columns }) => sum + columns.batch.filter(Boolean).length, 0));
    for (const { ledger: { pool, ...parts } } of steps) {
      assert.equal(Object.values(parts).reduce((sum, value) => sum + value, 0), pool);
    }
  }
});

test("rows and lines of one allocator say which side was simulated and which measured", () => {
  const { replay } = CASES[0];
  const [, log] = replay.sides;
  const pair = { ...replay, sides: [log, { ...log, source: "measured" }] };
  pair.clock = { ...replay.clock, frames: [replay.clock.frames[1], replay.clock.frames[1]] };
  const [, ...rows] = csvOf(pair).trim().split("\n").map((line) => line.split(",").slice(0, 3).join());
  const lines = linesOf(pair).trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(new Set(rows).size, rows.length, "no two rows tell of the same step of the same side");
  for (const source of ["simulated", "measured"]) {
    assert.equal(rows.filter((row) => row.startsWith(`"paged",${source},`)).length, rows.length / 2);
    assert.equal(lines.filter((line) => line.side === "paged" && line.source === source).length, lines.length / 2);
  }
});

test("the spans of a Chrome trace are the queues' request-seconds", () => {
  for (const { replay } of CASES) {
    const { traceEvents } = JSON.parse(chromeTraceOf(replay));
    replay.sides.forEach((log, side) => {
      const spans = traceEvents.filter(({ ph, pid }) => ph === "X" && pid === side + 1);
      assert.ok(spans.every(({ dur, name }) => dur >= 0 && QUEUES.includes(name)));
      const frames = replay.clock.frames[side];
      let expected = 0;
      for (let moment = 0; moment + 1 < frames.length; moment++) {
        const held = QUEUES.reduce((sum, name) => sum + valueAt(log, name, frames[moment]), 0);
        // what waits while a step runs is known when the step has ended
        expected += held * (replay.clock.time[moment + 1] - replay.clock.time[moment]);
      }
      const drawn = spans.reduce((sum, { dur }) => sum + dur, 0) / 1e6;
      assert.ok(Math.abs(drawn - expected) < 1e-4 * (1 + expected), `${drawn} for ${expected}`);
    });
  }
});

test("a page is filled once, and what fills it is not looked at again", () => {
  const replay = { trace: { name: "</title><b>@@PAGE@@" }, more: "@@TITLE@@ </script>" };
  const page = "<title>@@TITLE@@</title><script>const PAGE = @@PAGE@@; const replay = @@REPLAY@@;</script>";
  const made = pageOf(replay, page);
  assert.equal(made.split("</script>").length, 2);
  assert.ok(made.startsWith("<title>&lt;/title&gt;&lt;b&gt;@@PAGE@@</title>"));
  const [, text, data] = /const PAGE = (.*); const replay = (.*);<\/script>$/.exec(made);
  assert.equal(JSON.parse(text), page);
  assert.deepEqual(JSON.parse(data), replay);
});
