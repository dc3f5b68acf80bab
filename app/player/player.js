// The player: mount(element, replay, options) draws a replay made by app/payload.py and lets people move
// through it.
//
//   options   moment, pin: where to begin (a moment's number, a request's id); onStep({moment, pin}): hears
//             where people come to rest; link(): the address of what is shown; page: see export.js

import { LOOKS } from "./colors.js";
import { Controls } from "./controls.js";
import { make, say } from "./dom.js";
import { Focus } from "./focus.js";
import { momentAt } from "./layout.js";
import { Playhead } from "./playhead.js";
import { Quiz } from "./quiz.js";
import { Screen } from "./screen.js";
import { Side, swatch } from "./side.js";
import { Timebar } from "./timebar.js";
import { bucketWords, CLASS_WORDS, count, headline, leadWords, legendWords, seconds, unbroken } from "./words.js";

const LETTERS = ["A", "B"];
const TELL_MS = 200; // while playing, words change this seldom
const REPORT_MS = 250;

export function mount(element, replay, options = {}) {
  const player = new Player(element, options);
  player.load(replay, options.moment, options.pin);
  return player;
}

class Player {
  constructor(element, { onStep = () => {}, link = null, page } = {}) {
    Object.assign(this, { onStep, link, page });
    this.root = make("div", { class: "pagelab", tabindex: 0, role: "group", "aria-label": "Replay of KV-cache memory" });
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.head = new Playhead(this);
    this.focus = new Focus(this.root, {
      onHover: () => this.paintLinks(),
      onPin: () => {
        for (const panel of this.panels) panel.paintAll();
        this.paintLinks();
        this.onRest();
      },
      onCells: (element, cells) =>
        this.panels.find(({ details }) => details.element.contains(element))?.mark(cells),
    });
    element.append(this.root);
    this.screen = new Screen(this.root, () => this.resize());
  }

  // Shows another replay. The first opens at `moment` or where it says; a later one of the same trace keeps
  // the time that was looked at. Who was pinned stays pinned where the replay has a request of that name.
  load(replay, moment, pin) {
    if (replay === this.replay || (replay.id && replay.id === this.replay?.id)) return;
    const before = this.replay;
    const time = this.times?.[this.head.moment];
    const wasPinned = before ? this.labels[this.focus.pinned] : undefined;
    this.head.pause();
    this.replay = replay;
    this.times = replay.clock.time;
    this.labels = replay.requests.map(([id]) => id);
    this.letters = LETTERS.slice(0, replay.sides.length);
    const sequencesOf = replay.requests.map(() => []);
    replay.sequences.forEach((request, sequence) => sequencesOf[request].push(sequence));
    for (const log of replay.sides) Object.assign(log, { owners: replay.sequences, sequencesOf });
    const pinned = this.labels.indexOf(pin ?? wasPinned);
    Object.assign(this.focus, { hovered: [], pinned: pinned < 0 ? null : pinned });
    this.quiz = new Quiz(this, replay.quiz);
    this.panels = replay.sides.map((log, side) => new Side(log, this.letters[side], this));
    this.head.load(this.times.length, this.interestingMoments());
    const isSameTrace = before?.trace.name === replay.trace.name;
    const wanted = isSameTrace ? momentAt(this.times, time) : (before ? replay.start : moment) ?? replay.start;
    this.head.moment = Math.min(this.head.last, Math.max(0, wanted));
    this.build();
    this.resize();
    if (before) this.onRest();
  }

  stop() {
    this.head.pause();
    clearTimeout(this.reporting);
    this.screen.stop();
    this.root.remove();
  }

  // Moments at which a side comes to a frame that is worth a look.
  interestingMoments() {
    const { frames } = this.replay.clock;
    const marks = this.replay.sides.map((log) => new Set(log.marks));
    return this.times.flatMap((_, moment) => {
      const isMarked = frames.some(
        (shown, side) => marks[side].has(shown[moment]) && (moment === 0 || shown[moment - 1] !== shown[moment]),
      );
      return isMarked ? [moment] : [];
    });
  }

  get limit() {
    return this.quiz.limit;
  }

  // How many of the events that a side shows may be told; null for all.
  numTold(log) {
    const side = this.replay.sides.indexOf(log);
    return this.quiz.numTold(side, this.replay.clock.frames[side][this.head.moment]);
  }

  nameOf(sequence) {
    const request = this.replay.sequences[sequence];
    const siblings = this.replay.sides[0].sequencesOf[request];
    return this.labels[request] + (siblings.length > 1 ? `/${siblings.indexOf(sequence)}` : "");
  }

  // A request's name in its colour and hatch.
  chip(request) {
    const name = make("span", {}, this.labels[request]);
    const attributes = { type: "button", "data-request": request, title: "click to keep in focus" };
    const isFocus = this.focus.requests.includes(request) ? " is-focus" : "";
    return make("button", { ...attributes, class: `chip ${this.fillClass("live", request)}${isFocus}` }, name);
  }

  // The class that gives an element the look of a ledger class; `fillRules` has its rule.
  fillClass(name, request) {
    return `fill-${name}-${request % LOOKS}`;
  }

  // --- what the parts tell us -----------------------------------------------------------------------

  onKey(event) {
    const deed = this.controls.deed(event);
    if (!deed) return;
    event.preventDefault();
    event.stopPropagation();
    deed();
  }

  onMove(now = null) {
    this.render(now);
  }

  onMode() {
    this.controls.tell(this);
    this.bar.showLoop(this.head.isLooping ? this.head.loop : null);
  }

  // Tells the host where we are, once people have come to rest.
  onRest() {
    clearTimeout(this.reporting);
    const { pinned } = this.focus;
    const report = () => this.onStep({ moment: this.head.moment, pin: pinned === null ? null : this.labels[pinned] });
    this.reporting = setTimeout(report, REPORT_MS);
  }

  onQuiz() {
    this.controls.tell(this);
    this.root.classList.toggle("is-asking", this.quiz.limit < Infinity);
    this.render();
  }

  pinRunning(place) {
    const running = this.panels.map(({ state }) => state.running).find((queue) => queue.length > place);
    if (running) this.focus.pin(running[place]);
  }

  find(text) {
    const request = this.labels.indexOf(text.trim());
    if (request < 0) this.announce(`There is no request ${text.trim()}.`);
    else if (this.focus.pinned !== request) this.focus.pin(request);
  }

  announce(text) {
    say(this.headline, text);
  }

  // --- drawing --------------------------------------------------------------------------------------

  build() {
    const { replay } = this;
    this.controls = new Controls(this);
    this.bar = new Timebar(replay, this.letters, (moment, isFinal) => this.head.seek(moment, isFinal));
    this.headline = make("p", { class: "headline", "aria-live": "polite" });
    this.legend = make("dl", { class: "words" });
    this.bucketNote = make("p");
    this.root.classList.toggle("is-single", replay.sides.length === 1);
    this.root.replaceChildren(
      make("p", { class: "verdict" }, unbroken(replay.verdict)),
      make("p", { class: "lead" }, leadWords(replay)),
      this.controls.element, this.headline, this.quiz.element,
      make("div", { class: "body" },
        make("div", { class: "sides pictures" }, ...this.panels.map(({ picture }) => picture)),
        this.bar.element,
        make("div", { class: "sides details" }, ...this.panels.map(({ details }) => details.element))),
      make("section", { class: "legend", "aria-label": "Legend" },
        make("h2", {}, "How to read this"), this.legend, this.bucketNote, ...legendWords(replay).map((text) => make("p", {}, text))),
      this.controls.keys,
    );
    this.controls.tell(this);
  }

  // Measures and paints everything anew.
  resize() {
    const inner = this.replay ? this.screen.measure() : 0;
    if (!inner) return;
    const { sides } = this.replay;
    const { style } = this.screen;
    const layout = this.screen.layout(sides, inner);
    for (const panel of this.panels) panel.resize(layout, style);
    this.bar.resize(inner, style);
    this.controls.tell(this);
    say(this.bucketNote, bucketWords(layout, this.replay));
    this.bucketNote.hidden = !this.bucketNote.textContent;
    this.legend.replaceChildren(...Object.keys(CLASS_WORDS)
      .filter((name) => name === "free" || sides.some((log) => log.columns[name]))
      .flatMap((name) => [
        make("dt", {}, swatch(style, name), ` ${CLASS_WORDS[name][0]}`), make("dd", {}, CLASS_WORDS[name][1]),
      ]));
    this.render();
  }

  paintLinks() {
    for (const panel of this.panels) panel.paintLinks();
  }

  // Paints the moment. `now` is given while playing: words then follow less often.
  render(now = null) {
    if (!this.screen.width) return;
    const { frames } = this.replay.clock;
    const { moment, last } = this.head;
    this.panels.forEach((panel, side) => panel.show(frames[side][moment]));
    this.bar.show(moment);
    this.controls.tellClock(`${seconds(this.times[moment])}, moment ${count(moment)} of ${count(last)}`);
    this.paintLinks();
    if (now !== null && now - this.sinceTold < TELL_MS) return;
    this.sinceTold = now ?? 0;
    this.panels.forEach((panel, side) => panel.tell(moment === 0 || frames[side][moment - 1] !== frames[side][moment]));
    if (now !== null) return;
    this.bar.slider.setAttribute("aria-valuetext", this.controls.clock.textContent);
    const told = this.panels.map(({ log }) => this.numTold(log));
    say(this.headline, headline(this.replay, moment, this.labels, this.letters, told));
  }
}
