// What a cell shows: text, pictures, and errors in words that help.
const MOST = 50_000; // characters of one output that are shown

// Replaces what stands below the cell.
export function showOutputs(cell, outputs) {
  cell.output.replaceChildren(...outputs.map((output) => MAKERS[output.kind](output, cell)));
}

const MAKERS = { text: makeText, picture: makePicture, page: makePage, error: makeError };

function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

function makeText({ text }, cell) {
  const cut = text.length > MOST ? `${text.slice(0, MOST)}\n... and ${text.length - MOST} characters more` : text;
  return make("pre", cell.kind === "check" ? "passed" : "", cut.replace(/\n$/, ""));
}

function makePicture({ png, text }) {
  if (png === null) return make("p", "in-words", `A picture, which needs matplotlib. In words: ${text}`);
  const picture = make("img", "picture");
  Object.assign(picture, { src: `data:image/png;base64,${png}`, alt: text });
  return picture;
}

// A page in the page, as tall as what it holds.
function makePage({ html, text }) {
  const frame = make("iframe", "page");
  frame.title = text;
  frame.srcdoc =
    '<!doctype html><meta name="color-scheme" content="light dark">' +
    `<style>body { margin: 0 } body > div { padding: 4px }</style><body><div>${html}</div>`;
  frame.onload = () => {
    const { body } = frame.contentDocument;
    new ResizeObserver(() => (frame.style.height = `${body.scrollHeight}px`)).observe(body);
  };
  return frame;
}

function makeError({ name, text, trace }) {
  if (name === "NotImplementedError") {
    return make("p", "not-yet", "Not written yet. Fill in the cell above, run it, and then this one again.");
  }
  const box = make("div", "error");
  if (name === "Wrong") {
    box.append(make("b", "", "Not right yet"), make("pre", "", text));
    return box;
  }
  box.append(make("b", "", name), make("pre", "", [text, ...trace.map((line) => `  ${line}`)].join("\n")));
  if (name === "NameError") {
    const above = make("button", "", "Run all above");
    above.type = "button";
    above.onclick = () => above.dispatchEvent(new CustomEvent("run-above", { bubbles: true }));
    box.append(make("p", "", "Has every cell above been run since Python started?"), above);
  }
  return box;
}
