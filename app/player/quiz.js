// Predict: the replay stops before an event and asks; then it shows what happened, and scores. The questions
// come with the replay (app/quiz.py): the same ones as `pagelab quiz` prints for the seed.

import { make } from "./dom.js";
import { plural } from "./words.js";

// The moments {ask, tell} of a question: where its side shows what is known, and what came of it.
export function momentsOf(clock, { side, show, frame }) {
  const frames = clock.frames[side];
  const tell = frames.indexOf(frame);
  return { ask: show === frame ? tell : tell - 1, tell };
}

// Whether `text` answers the question: a number may be as far off as the question allows.
export function isRight({ answer, tolerance, choices }, text) {
  const given = text.trim().replace(/\s*%$/, "").replace(",", ".");
  if (choices.length || !/^-?\d+(\.\d+)?$/.test(given)) return given === answer;
  return Math.abs(Number(given) - Number(answer)) <= tolerance + 1e-9;
}

export class Quiz {
  // `player` moves and shows; the card is `element`, hidden while nobody predicts.
  constructor(player, { seed, questions }) {
    this.player = player;
    this.seed = seed;
    this.questions = questions;
    this.element = make("section", { class: "quiz", "aria-label": "Predict", hidden: true });
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.answer(new FormData(this.element.querySelector("form")).get("answer") ?? "");
    });
    this.isOn = false;
  }

  get question() {
    return this.isOn ? this.questions[this.at] ?? null : null;
  }

  // Where the replay may not go past while a question is open.
  get limit() {
    return this.question && !this.isTold ? momentsOf(this.player.replay.clock, this.question).ask : Infinity;
  }

  // How many of the events of this side's frame may be told; null for all.
  numTold(side, frame) {
    const { question } = this;
    return question && !this.isTold && question.side === side && question.frame === frame ? question.told : null;
  }

  toggle() {
    if (this.isOn) this.leave();
    else this.begin();
  }

  begin() {
    this.isOn = true;
    this.at = -1;
    this.score = 0;
    this.element.hidden = false;
    this.next();
  }

  leave() {
    this.isOn = false;
    this.element.hidden = true;
    this.player.onQuiz();
  }

  // Goes on to the next question: the replay plays up to it, at once where people ask for calm.
  next() {
    this.at += 1;
    this.isTold = false;
    if (!this.question) {
      this.show([
        make("p", { class: "ask", tabindex: -1 }, `${this.score} of ${plural(this.questions.length, "question")} right.`),
        make("p", { class: "quiet" }, `Seed ${this.seed}: everybody who names it gets these questions.`),
        make("div", { class: "row" },
          make("button", { type: "button", onclick: () => this.begin() }, "Once more"),
          make("button", { type: "button", onclick: () => this.leave() }, "Done")),
      ]);
      return;
    }
    this.show([make("p", { class: "quiet" }, "The replay goes on to the next question …")]);
    this.player.head.approach(this.limit, () => this.ask());
  }

  ask() {
    const { question } = this;
    if (!question) return;
    const { labels, replay, letters } = this.player;
    const where = letters.length > 1 ? `, side ${letters[question.side]}` : "";
    const known = question.show === question.frame ? [] : replay.sides[question.side].said[question.frame].slice(0, question.told);
    const field = question.choices.length
      ? question.choices.map((choice) =>
        make("button", { type: "button", onclick: () => this.answer(choice) }, choice))
      : [
        make("label", {}, "Your answer ", make("input", { name: "answer", inputmode: "decimal", autocomplete: "off", required: true })),
        make("button", { type: "submit" }, "Check"),
      ];
    this.show([
      make("p", { class: "quiet" }, `Step ${question.step}${where}. ${question.situation}`),
      known.length ? make("p", { class: "quiet" }, "So far in this step: ",
        known.map(([kind, request]) => `${labels[request]} ${kind.replace("_", " ")}`).join(", "), ".") : null,
      make("p", { class: "ask", tabindex: -1 }, question.ask),
      make("form", { class: "row" }, ...field,
        make("button", { type: "button", class: "plain", onclick: () => this.answer("") }, "Show me")),
    ]);
  }

  answer(text) {
    const { question } = this;
    if (!question || this.isTold) return;
    const isGood = isRight(question, text);
    this.isTold = true;
    this.score += isGood;
    const verdict = isGood ? `Right: ${question.answer}.` : text ? `It is ${question.answer}, not ${text.trim()}.` : `It is ${question.answer}.`;
    this.show([
      make("p", { class: "quiet" }, question.ask),
      make("p", { class: `ask ${isGood ? "right" : "not"}` , tabindex: -1 }, verdict),
      make("p", {}, `${question.why[0].toUpperCase()}${question.why.slice(1)}.`),
      make("div", { class: "row" }, make("button", { type: "button", onclick: () => this.next() },
        this.at + 1 < this.questions.length ? "Next question" : "How did I do?")),
    ]);
    this.player.head.seek(momentsOf(this.player.replay.clock, question).tell);
  }

  // Fills the card. What is new is read out, and the keyboard is where it is needed.
  show(parts) {
    const number = Math.min(this.at + 1, this.questions.length);
    this.element.replaceChildren(
      make("p", { class: "count" }, make("b", {}, "Predict"), ` seed ${this.seed}, question ${number} of ${this.questions.length}, ${this.score} right`,
        make("button", { type: "button", class: "plain", "aria-label": "Leave predicting", title: "Leave (P)", onclick: () => this.leave() }, "Leave")),
      make("div", { "aria-live": "polite" }, ...parts.filter(Boolean)),
    );
    const target = this.element.querySelector("input, form button, .row button");
    if (target) target.focus({ preventScroll: true });
    else this.player.root.focus({ preventScroll: true });
    this.player.onQuiz();
  }
}
