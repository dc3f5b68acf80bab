// The host for any web page. Only a page that is nothing but the player keeps the moment in its address.
const place = document.querySelector(".pagelab-replay:not([data-mounted])");
place.dataset.mounted = "";
const shadow = place.attachShadow({ mode: "open" });
const sheet = new CSSStyleSheet();
sheet.replaceSync(css);
shadow.adoptedStyleSheets = [sheet];
const isWholePage = document.querySelector("main > .pagelab-replay:only-of-type") === place;
const asked = Number(/^#step=(\d+)$/.exec(location.hash)?.[1] ?? NaN);
mount(shadow, replay, {
  moment: isWholePage && Number.isInteger(asked) ? asked : undefined,
  onStep: (moment) => isWholePage && history.replaceState(null, "", `#step=${moment}`),
});
