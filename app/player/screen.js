// The screen that a player has: how wide it is, in which theme, and whether the player fills it.

import { fillRules, makeStyle } from "./colors.js";
import { make, say } from "./dom.js";
import { layoutPool } from "./layout.js";

const POOL_HEIGHT = 288;
const POOL_SHARE = 0.42; // of a screen that is filled
const WIDE = 760; // two columns from this width on
const COLUMN_GAP = 28;

export class Screen {
  // `onChange` hears that the width or the theme is another.
  constructor(root, onChange) {
    Object.assign(this, { root, onChange, width: 0, isWide: false, isPresenting: false, style: null });
    this.fills = make("style");
    root.addEventListener("transitionend", (event) => {
      if (event.target === root && event.propertyName === "background-color") onChange();
    });
    this.observer = new ResizeObserver(() => {
      if (Math.abs(root.clientWidth - this.width) >= 1) onChange();
    });
    this.observer.observe(root);
  }

  stop() {
    this.observer.disconnect();
  }

  // Fills the screen, in the top layer so that nothing of the host is over it; or leaves it.
  present() {
    this.isPresenting = !this.isPresenting;
    this.root.classList.toggle("is-presenting", this.isPresenting);
    if (this.isPresenting) {
      this.root.setAttribute("popover", "manual");
      this.root.showPopover();
    } else {
      this.root.removeAttribute("popover");
    }
    this.root.focus({ preventScroll: true });
    this.onChange();
  }

  changeTheme() {
    this.root.dataset.scheme = this.root.dataset.theme === "dark" ? "light" : "dark";
    this.onChange();
  }

  // Measures and takes the theme's colours; returns the width inside, in CSS pixels, 0 while nothing is shown.
  measure() {
    this.width = this.root.clientWidth;
    if (!this.width) return 0;
    const seen = () => (isDark(getComputedStyle(this.root).backgroundColor) ? "dark" : "light");
    this.root.dataset.theme = this.root.dataset.scheme ?? seen();
    this.style = makeStyle(this.root);
    say(this.fills, fillRules(this.style));
    this.root.append(this.fills);
    const inner = this.width - 2 * parseFloat(getComputedStyle(this.root).paddingLeft);
    this.isWide = inner >= WIDE;
    this.root.classList.toggle("is-wide", this.isWide);
    return inner;
  }

  // How pools are laid out on a width of `inner`, the same for both sides.
  layout(sides, inner) {
    return layoutPool({
      numSlots: Math.max(...sides.map((log) => log.pool)),
      cellSlots: sides.reduce((unit, log) => leastCommonMultiple(unit, log.cell_slots), 0),
      width: Math.floor(this.isWide ? (inner - COLUMN_GAP) / 2 : inner),
      maxHeight: this.isPresenting ? Math.max(POOL_HEIGHT, window.innerHeight * POOL_SHARE) : POOL_HEIGHT,
    });
  }
}

function leastCommonMultiple(a, b) {
  if (!a || !b) return a || b;
  const divisor = (x, y) => (y ? divisor(y, x % y) : x);
  return (a * b) / divisor(a, b);
}

function isDark(color) {
  const [r, g, b] = color.match(/[\d.]+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
}
