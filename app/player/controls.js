// The bar over the pictures: moving, finding, predicting, presenting, saving. And what every key does.

import { icon, ICONS, make, say } from "./dom.js";
import { chromeTraceOf, csvOf, linesOf, pageOf, pictureOf, save } from "./export.js";
import { SPEEDS } from "./playhead.js";
import { plural } from "./words.js";

const LOOP_WORDS = ["Loop from here", "Loop to here", "End the loop"];

const KEYS = [
  ["Space", "play and pause"],
  ["← →", "one moment back and on"],
  ["Shift ← →, Page Up, Page Down", "to an event"],
  ["Home, End", "first and last moment"],
  ["[ ]", "slower and faster"],
  ["L", "loop from here, to here, no more"],
  ["1 to 9", "keep the n-th running request in focus"],
  ["/", "find a request"],
  ["Tab", "to the memory, the events and the block tables: the keyboard points at what it is on"],
  ["← → ↑ ↓ in the memory", "slot by slot, row by row; Shift: block by block"],
  ["Enter", "in the memory: keep its request in focus"],
  ["Esc", "leave the memory, drop the focus, leave what is open"],
  ["P", "predict what happens next"],
  ["F", "present: large type, nothing else"],
  ["D", "dark and light"],
  ["?", "this list"],
];

export class Controls {
  constructor(player) {
    this.player = player;
    const { head } = player;
    const button = (name, keys, content, onclick, more = {}) => make("button",
      { type: "button", "aria-label": name, title: `${name} (${keys})`, onclick, ...more }, content);
    this.play = button("Play", "Space", icon(ICONS.play), () => head.toggle(), { class: "play" });
    this.speeds = make("select", { "aria-label": "Speed", title: "Speed ([ and ])" },
      ...SPEEDS.map((speed) => make("option", { value: speed }, `${plural(speed, "moment")}/s`)));
    this.speeds.addEventListener("change", () => (head.speed = Number(this.speeds.value)));
    this.loop = button(LOOP_WORDS[0], "L", icon(ICONS.loop), () => head.loopHere());
    this.predict = make("button", { type: "button", class: "word", title: "Guess before you see (P)", onclick: () => player.quiz.toggle() }, "Predict");
    this.present = make("button", { type: "button", class: "word", title: "Large type, nothing else (F)", onclick: () => player.screen.present() }, "Present");
    this.clock = make("output", { class: "clock" });
    this.keys = this.buildKeys();
    this.element = make("div", { class: "controls", role: "toolbar", "aria-label": "Playback" },
      button("First moment", "Home", icon(ICONS.first), () => head.seek(0)),
      button("Previous interesting event", "Shift + Left", icon(ICONS.backToEvent), () => head.seekStop(-1)),
      button("One moment back", "Left", icon(ICONS.back), () => head.step(-1)),
      this.play,
      button("One moment on", "Right", icon(ICONS.on), () => head.step(1)),
      button("Next interesting event", "Shift + Right", icon(ICONS.onToEvent), () => head.seekStop(1)),
      button("Last moment", "End", icon(ICONS.last), () => head.seek(head.last)),
      this.speeds, this.loop, this.predict, this.present, this.buildMenu(), this.clock);
  }

  buildMenu() {
    const { player } = this;
    const { replay } = player;
    const name = `pagelab-${replay.trace.name.replace(/[^\w.-]+/g, "_")}`;
    const item = (text, deed) => make("button", { type: "button", onclick: () => {
      this.menu.open = false;
      deed();
    } }, text);
    const find = make("input", { type: "search", "aria-label": "Find a request", placeholder: "request, such as r12", list: "pagelab-ids" });
    find.addEventListener("change", () => player.find(find.value));
    this.finder = find;
    this.menu = make("details", { class: "menu" }, make("summary", { class: "word" }, "More"),
      make("div", { class: "items" },
        make("label", {}, "Find ", find),
        player.link ? item("Copy a link to this moment", () => this.copyLink()) : null,
        item("Save the picture (PNG)", () => pictureOf(player).toBlob((blob) => save(`${name}.png`, "image/png", blob))),
        item("Save the numbers (CSV)", () => save(`${name}.csv`, "text/csv", csvOf(replay))),
        item("Save the events (JSON Lines)", () => save(`${name}.jsonl`, "application/x-ndjson", linesOf(replay))),
        item("Save for Perfetto (JSON)", () => save(`${name}.trace.json`, "application/json", chromeTraceOf(replay))),
        player.page ? item("Save as a page (HTML)", () => save(`${name}.html`, "text/html", pageOf(replay, player.page))) : null,
        item("Dark and light", () => player.screen.changeTheme()),
        item("Keys", () => this.keys.showModal())));
    return this.menu;
  }

  buildKeys() {
    const close = make("button", { type: "button", onclick: () => dialog.close() }, "Close");
    const rows = KEYS.flatMap(([keys, deed]) => [make("dt", {}, keys), make("dd", {}, deed)]);
    const dialog = make("dialog", { class: "keys", "aria-label": "Keys" }, make("h2", {}, "Keys"), make("dl", { class: "words" }, ...rows), close);
    return dialog;
  }

  copyLink() {
    const { player } = this;
    const link = player.link();
    const told = () => player.announce("The link to this moment is copied.");
    if (navigator.clipboard) navigator.clipboard.writeText(link).then(told, () => player.announce(`The link: ${link}`));
    else player.announce(`The link: ${link}`);
  }

  openFinder() {
    this.menu.open = true;
    this.finder.focus();
  }

  tellClock(text) {
    say(this.clock, text);
  }

  tell({ head: { isPlaying, speed, loop }, quiz, screen: { isPresenting } }) {
    const name = isPlaying ? "Pause" : "Play";
    this.play.replaceChildren(icon(isPlaying ? ICONS.pause : ICONS.play));
    this.play.setAttribute("aria-label", name);
    this.play.title = `${name} (Space)`;
    this.speeds.value = speed;
    const word = LOOP_WORDS[loop.length];
    this.loop.setAttribute("aria-label", word);
    this.loop.title = `${word} (L)`;
    this.loop.classList.toggle("is-on", loop.length > 0);
    this.predict.setAttribute("aria-pressed", quiz.isOn);
    this.predict.hidden = !quiz.questions.length;
    this.present.setAttribute("aria-pressed", isPresenting);
    say(this.present, isPresenting ? "Stop presenting" : "Present");
  }

  // What the key does now, or undefined where it is not ours. `R` and `C` are Streamlit's: never take them.
  deed(event) {
    const { player } = this;
    const { head } = player;
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
    if (event.key === "Escape") return () => this.escape();
    if (target.closest("dialog")) return undefined;
    if (target.tagName === "INPUT" && target.type !== "range") return undefined;
    if (target.tagName === "SELECT" && event.key.startsWith("Arrow")) return undefined;
    if (event.key === " " && target.closest("button, select, summary")) return undefined;
    if (/^[1-9]$/.test(event.key)) return () => player.pinRunning(Number(event.key) - 1);
    const go = (direction) => (event.shiftKey ? head.seekStop(direction) : head.step(direction));
    return {
      " ": () => head.toggle(),
      ArrowLeft: () => go(-1),
      ArrowRight: () => go(1),
      PageUp: () => head.seekStop(-1),
      PageDown: () => head.seekStop(1),
      Home: () => head.seek(0),
      End: () => head.seek(head.last),
      "[": () => head.changeSpeed(-1),
      "]": () => head.changeSpeed(1),
      l: () => head.loopHere(),
      p: () => player.quiz.questions.length && player.quiz.toggle(),
      f: () => player.screen.present(),
      d: () => player.screen.changeTheme(),
      "/": () => this.openFinder(),
      "?": () => this.keys.showModal(),
    }[event.key];
  }

  escape() {
    const { player } = this;
    if (this.keys.open) this.keys.close();
    else if (this.menu.open) this.menu.open = false;
    else if (player.focus.pinned !== null) player.focus.pin(player.focus.pinned);
    else if (player.quiz.isOn) player.quiz.leave();
    else if (player.screen.isPresenting) player.screen.present();
    player.root.focus({ preventScroll: true });
  }
}
