// The frame: who is let in, which screen is shown, what has changed.

import { call, follow, login, page } from "/assets/ask.js";
import { count, fill, h, safe } from "/assets/dom.js";
import { fleet } from "/assets/fleet.js";
import { state } from "/assets/state.js";
import { time } from "/assets/time.js";
import { work } from "/assets/work.js";
import { sessions } from "/assets/sessions.js";

const SCREENS = { fleet: ["Fleet", fleet], state: ["State", state], time: ["Time", time], work: ["Work", work], sessions: ["Sessions", sessions] };
const main = document.querySelector("#main");
let screen = null; // {name, update}
let changed = false; // something came while the screen was held still

function route() {
  const [name, ...rest] = location.hash.slice(2).split("/");
  return { name: name in SCREENS ? name : "fleet", rest: rest.map(decodeURIComponent).join("/") };
}

async function show() {
  const { name, rest } = route();
  fill(document.querySelector("#screens"), ...Object.entries(SCREENS).map(([one, [title]]) =>
    h("a", { href: `#/${one}`, "aria-current": one === name ? "page" : null }, title)));
  document.title = `${SCREENS[name][0]} · crdtsync`;
  if (screen?.name === name && screen.go) { await screen.go(rest); return; }
  const place = h("div", {});
  fill(main, place);
  const made = { name };
  screen = made;
  Object.assign(made, await SCREENS[name][1](place, rest));
}

// Nothing moves under the cursor: while the pointer or the focus is on a part that says so, news wait.
function isHeld() {
  return Boolean(document.querySelector("[data-hold]:hover, [data-hold]:focus-within, dialog[open]"));
}

async function update() {
  if (!screen?.update) return;
  if (isHeld()) { changed = true; return; }
  changed = false;
  await screen.update();
}
setInterval(() => { if (changed && !isHeld()) void update(); }, 400);

function head() {
  const choice = page.spaces.length > 1
    ? h("label", {}, h("span", {}, "space"), h("select", { onchange: (event) => { page.space = event.target.value; screen = null; document.dispatchEvent(new Event("space")); } },
      page.spaces.map((name) => h("option", { value: name, selected: name === page.space }, name)))) : null;
  fill(document.querySelector("#where"), ...[choice, h("span", {}, "as ", safe(page.agent), page.readOnly ? " (read only)" : "")].filter(Boolean));
}

let last = "";
function news(told) {
  const lines = [];
  if (told.down) lines.push(h("div", { class: "down" }, "The daemon does not answer: ", safe(told.down)));
  for (const alarm of told.alarms.slice(0, 5)) lines.push(h("div", {}, h("strong", {}, alarm.code), " ", safe(alarm.message)));
  if (told.alarms.length > 5) lines.push(h("div", {}, `and ${count(told.alarms.length - 5, "alarm")} more`));
  const now = JSON.stringify([told.down, told.alarms]);
  if (now !== last) fill(document.querySelector("#alarms"), ...lines);
  last = now;
  void update();
}

async function begin() {
  const word = location.hash.slice(1);
  if (word && !word.startsWith("/")) {
    history.replaceState(null, "", "/#/fleet"); // it lets in once: nobody need find it in the history
    const refused = await login(word);
    if (refused) { stop(refused); return; }
  }
  const outcome = await follow({ hello: async () => { page.spaces = await call("spaces"); head(); await show(); }, news, gone: () => stop() });
  if (outcome !== null) stop(outcome);
}

function stop(reason) {
  fill(document.querySelector("#screens"));
  fill(main, h("div", { class: "panel empty" }, h("h1", {}, "This browser is not let in"), h("p", {}, reason || "The page's server has ended, or was started anew."), h("p", {}, "Open the address that ", h("code", {}, "crdtsync ui"), " printed last.")));
}

document.addEventListener("spaces", head);
window.addEventListener("hashchange", () => void show());
void begin();
