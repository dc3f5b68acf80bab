// The page: cells to edit and run, what they show, and the student's work kept in this browser.
import { keepCode, keptCode, keepPassed, hasPassed, forgetAll } from "./work.js";
import { showOutputs } from "./outputs.js";

const INDENT = "    ";
const NAMES = { stub: "Yours to fill in", check: "Check", code: "" };
const status = document.getElementById("status");
const stop = document.getElementById("stop");
const cells = [...document.querySelectorAll(".cell")].map(setUp);
const articles = [...document.querySelectorAll("article")];

let worker = null; // Python, once a cell has been run
const asked = new Map(); // id -> cell: sent to Python and not answered
let lastId = 0;

function setUp(element) {
  const editor = element.querySelector("textarea");
  const cell = { element, editor, original: editor.value, ...element.dataset };
  cell.lesson = element.closest("article").id;
  cell.number = element.getAttribute("aria-label").split(" ")[1];
  editor.value = keptCode(cell.key) ?? cell.original;

  const row = make("div", "row");
  const name = make("span", "label", `${cell.number}`);
  if (NAMES[cell.kind]) name.append(make("b", "", NAMES[cell.kind]));
  cell.mark = make("span", "mark");
  cell.reset = button("Original", "Put the original text of this cell back", () => put(cell, cell.original));
  const above = button("Run all above", `Run all cells above cell ${cell.number}`, () => runAbove(cell));
  const run = button("Run", `Run cell ${cell.number}`, () => runCell(cell));
  run.className = "run";
  row.append(name, cell.mark, cell.reset, ...(cell.number === "1" ? [] : [above]), run);
  element.prepend(row);
  cell.output = make("div", "output");
  cell.output.setAttribute("aria-live", "polite");
  element.append(cell.output);

  editor.addEventListener("input", () => edited(cell));
  editor.addEventListener("keydown", (event) => onKey(cell, event));
  edited(cell);
  return cell;
}

function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

function button(text, label, onclick) {
  const element = make("button", "", text);
  Object.assign(element, { type: "button", onclick, ariaLabel: label });
  return element;
}

function put(cell, code) {
  cell.editor.value = code;
  edited(cell);
}

function edited(cell) {
  const code = cell.editor.value;
  cell.editor.rows = code.split("\n").length;
  cell.reset.hidden = code === cell.original;
  keepCode(cell.key, code === cell.original ? null : code);
}

let leaves = false; // Escape was pressed: the next Tab moves on instead of indenting
function onKey(cell, event) {
  const wasLeaving = leaves;
  leaves = event.key === "Escape" || (leaves && event.key === "Shift");
  if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    runCell(cell);
    if (event.shiftKey) cellsOf(cell.lesson)[Number(cell.number)]?.editor.focus();
  } else if (event.key === "Tab" && !wasLeaving && !event.shiftKey) {
    event.preventDefault();
    insert(cell, INDENT);
  } else if (event.key === "Enter" && !event.altKey) {
    event.preventDefault();
    const line = cell.editor.value.slice(0, cell.editor.selectionStart).split("\n").at(-1);
    insert(cell, `\n${/^ */.exec(line)[0]}${/:\s*$/.test(line) ? INDENT : ""}`);
  }
}

// As if typed, so that the browser's own undo knows of it.
function insert(cell, text) {
  if (!document.execCommand("insertText", false, text)) {
    cell.editor.setRangeText(text, cell.editor.selectionStart, cell.editor.selectionEnd, "end");
    edited(cell);
  }
}

const cellsOf = (lesson) => cells.filter((cell) => cell.lesson === lesson);

function runAbove(cell) {
  cellsOf(cell.lesson).slice(0, cell.number - 1).forEach(runCell);
}

function runCell(cell) {
  worker ??= startWorker();
  const id = ++lastId;
  asked.set(id, cell);
  mark(cell, "waits");
  stop.hidden = false;
  const { lesson, editor } = cell;
  worker.postMessage({ id, lesson, code: editor.value, label: `cell ${cell.number}` });
}

function startWorker() {
  const started = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  status.textContent = "Python starts.";
  started.onmessage = ({ data }) => {
    if (data.say) status.textContent = data.say;
    else if (data.failed) endWorker(`Python did not start: ${data.failed}`);
    else if (data.begins) mark(asked.get(data.id), "runs");
    else answered(data);
  };
  started.onerror = (event) => endWorker(`Python did not start: ${event.message ?? "this browser is too old"}`);
  return started;
}

function answered({ id, outputs }) {
  const cell = asked.get(id);
  asked.delete(id);
  stop.hidden = asked.size === 0;
  const failed = outputs.some((output) => output.kind === "error");
  mark(cell, failed ? "failed" : "done");
  showOutputs(cell, outputs);
  if (cell.kind === "check") {
    keepPassed(cell.key, !failed);
    showProgress();
  }
}

// What the cells defined is gone with the worker; what they show is left to be read.
function endWorker(why) {
  worker?.terminate();
  worker = null;
  for (const cell of asked.values()) mark(cell, "");
  asked.clear();
  for (const cell of cells) mark(cell, "");
  stop.hidden = true;
  status.textContent = why;
}

function mark(cell, state) {
  cell.element.dataset.state = state;
  cell.mark.textContent = { waits: "waits", runs: "runs", failed: "", done: "done" }[state] ?? "";
}

function showProgress() {
  for (const place of document.querySelectorAll(".progress")) {
    const checks = cellsOf(place.dataset.lesson).filter((cell) => cell.kind === "check");
    const passed = checks.filter((cell) => hasPassed(cell.key)).length;
    place.textContent = `${passed} of ${checks.length}`;
    place.title = `${passed} of ${checks.length} checks passed`;
    place.classList.toggle("is-done", passed === checks.length);
  }
}

function showPart() {
  const shown = articles.find((article) => `#${article.id}` === location.hash) ?? articles[0];
  for (const article of articles) article.hidden = article !== shown;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${shown.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${shown.dataset.title} - PageLab`;
  scrollTo(0, 0);
}

stop.onclick = () => endWorker("Stopped. Python starts anew with the next cell: run the cells above it first.");
document.getElementById("anew").onclick = () => {
  if (!confirm("Forget what you wrote in all lessons, and start anew?")) return;
  forgetAll();
  endWorker("All cells are as they were at first.");
  for (const cell of cells) {
    put(cell, cell.original);
    showOutputs(cell, []);
  }
  showProgress();
};
document.addEventListener("run-above", (event) => runAbove(cells.find((cell) => cell.output.contains(event.target))));
addEventListener("hashchange", showPart);
showPart();
showProgress();
