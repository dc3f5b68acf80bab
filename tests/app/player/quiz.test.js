import assert from "node:assert/strict";
import { test } from "node:test";

import { isRight, momentsOf } from "../../../app/player/quiz.js";
import { stateAt, valueAt } from "../../../app/player/state.js";
import { CASES } from "./golden.js";

const QUESTIONS = CASES.flatMap(({ replay }) => replay.quiz.questions.map((question) => [replay, question]));
const shown = (replay, { side }, moment) => replay.clock.frames[side][moment];

test("a question stands at a moment that shows what is known, and its answer at the next picture of its side", () => {
  assert.ok(QUESTIONS.length > 20);
  for (const [replay, question] of QUESTIONS) {
    const { ask, tell } = momentsOf(replay.clock, question);
    assert.equal(shown(replay, question, ask), question.show);
    assert.equal(shown(replay, question, tell), question.frame);
    assert.ok(ask === tell || tell === ask + 1);
    assert.equal(ask === tell, question.show === question.frame);
  }
});

test("what a question asks for is not among what is told before it", () => {
  for (const [replay, question] of QUESTIONS) {
    const said = replay.sides[question.side].said[question.frame];
    assert.ok(question.told <= said.length);
    if (question.kind === "preempt") assert.equal(replay.requests[said[question.told][1]][0], question.answer);
    if (["preempt", "free", "alloc", "admit"].includes(question.kind)) assert.equal(said[question.told][0], question.kind);
  }
});

test("of waste, the picture that is shown while it is asked has the answer in its slots", () => {
  const asked = QUESTIONS.filter(([, { kind }]) => kind === "waste");
  assert.ok(asked.length);
  for (const [replay, { side, show, answer }] of asked) {
    const log = replay.sides[side];
    const taken = log.pool - ["free", "external", "cached"].reduce((sum, name) => sum + valueAt(log, name, show), 0);
    const live = [...stateAt(log, show).cells.values()].reduce((sum, content) => sum + content.live, 0);
    assert.equal((100 * (1 - live / taken)).toFixed(1), answer);
  }
});

test("an answer is right to the letter, or as near as its question allows", () => {
  const number = { answer: "22.5", tolerance: 0.5, choices: [] };
  for (const text of ["22.5", " 22.5 % ", "22,5", "22", "23.0"]) assert.ok(isRight(number, text), text);
  for (const text of ["21.9", "23.1", "", "many", "22.5.1", "0x16"]) assert.ok(!isRight(number, text), text);
  const exact = { answer: "4", tolerance: 0, choices: [] };
  assert.ok(isRight(exact, "4"));
  assert.ok(!isRight(exact, "4.1"));
  const choice = { answer: "7", tolerance: 0, choices: ["7", "7.0"] };
  assert.ok(isRight(choice, "7"));
  assert.ok(!isRight(choice, "7.0"), "names are no numbers");
});
