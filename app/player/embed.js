// The host for any web page. Only a page that is nothing but the player keeps moment and focus in its address.
const place = document.querySelector(".pagelab-replay:not([data-mounted])");
place.dataset.mounted = "";
const shadow = place.attachShadow({ mode: "open" });
const sheet = new CSSStyleSheet();
sheet.replaceSync(css);
shadow.adoptedStyleSheets = [sheet];
const isWholePage = document.querySelector("main > .pagelab-replay:only-of-type") === place;
const asked = new URLSearchParams(isWholePage ? location.hash.slice(1) : "");
const moment = /^\d+$/.test(asked.get("step") ?? "") ? Number(asked.get("step")) : undefined;
const player = mount(shadow, replay, {
  moment,
  pin: asked.get("pin") ?? undefined,
  page: PAGE,
  link: isWholePage ? () => location.href : null,
  onStep: ({ moment: step, pin }) => {
    if (!isWholePage) return;
    const state = new URLSearchParams(pin === null ? { step } : { step, pin });
    history.replaceState(null, "", `#${state}`);
  },
});
if (asked.has("predict") && replay.quiz.questions.length) player.quiz.begin();
