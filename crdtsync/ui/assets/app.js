// The frame: who is let in, which screen is shown, when it asks anew.

import { call, follow, login, page } from "/assets/ask.js";
import { count, fill, h, held, latest, safe, tag, tick } from "/assets/dom.js";
import { context } from "/assets/context.js";
import { fleet } from "/assets/fleet.js";
import { sessions } from "/assets/sessions.js";
import { state } from "/assets/state.js";
import { time } from "/assets/time.js";
import { work } from "/assets/work.js";

const SCREENS = { fleet: ["Fleet", fleet], state: ["State", state], time: ["Time", time], work: ["Work", work], sessions: ["Sessions", sessions], context: ["Context", context] };
const EVERY_MS = 1000;
const EVERY_MS_MAX = 10_000;
const SHARE = 20; // what took a tenth of a second is asked for again after so many tenths
const AWAY = ["unavailable", "timeout"];
const main = document.querySelector("#main");
const waiting = document.querySelector("#held");
let screen = null; // {name, update, go}
let changed = false; // something came, and the screen does not show it yet
let busy = false;
let next = 0;
let down = null; // why the daemon does not answer
const begin = latest();

function decoded(words) { try { return decodeURIComponent(words); } catch { return words; } } // whatever somebody typed

function route() {
  const [name, ...rest] = location.hash.slice(2).split("/");
  return { name: Object.hasOwn(SCREENS, name) ? name : "fleet", rest: decoded(rest.join("/")) };
}

async function show() {
  const isLast = begin();
  const { name, rest } = route();
  fill(document.querySelector("#screens"), ...Object.entries(SCREENS).map(([one, [title]]) =>
    h("a", { href: `#/${one}`, "aria-current": one === name ? "page" : null }, title)));
  document.title = `${SCREENS[name][0]} · crdtsync`;
  try {
    if (screen?.name === name && screen.go) { await screen.go(rest); return; }
    held.clear();
    const place = h("div", {});
    const made = { name, place };
    screen = made;
    waits();
    Object.assign(made, await SCREENS[name][1](place, rest), { isRead: true });
    if (screen === made) waits();
    if (window.scrollY > 0 && !rest) window.scrollTo(0, 0);
  } catch (error) {
    if (!isLast()) return;
    screen = null; // the next news try again
    changed = AWAY.includes(error.code);
    if (changed && down) { fill(main, away()); return; }
    fill(main, h("div", { class: "panel empty" }, h("h1", {}, "There is nothing to show yet"), h("p", {}, safe(error.message))));
  }
}

// A screen that nothing was read for yet says in its place why.
function waits() {
  if (!screen?.place) return;
  const shows = screen.isRead || !down ? screen.place : away();
  if (main.firstChild !== shows) fill(main, shows);
}
function away() {
  return h("div", { class: "panel empty" }, h("h1", {}, "The daemon does not answer"), h("p", {}, "This screen comes by itself when it does. On its host, ", h("code", {}, "crdtsync doctor"), " says why it does not."));
}

async function update() {
  if (document.hidden || busy || Date.now() < next) return;
  changed = false;
  busy = true;
  const began = performance.now();
  try {
    if (screen) await screen.update?.(); else await show();
  } catch { changed = true; } finally {
    busy = false;
    next = Date.now() + Math.min(EVERY_MS_MAX, Math.max(EVERY_MS, SHARE * (performance.now() - began)));
  }
}
// What waited for the pointer or the focus to go is asked for when they have gone.
setInterval(() => {
  for (const part of held) if (!part.isConnected) held.delete(part); else if (part.free()) { held.delete(part); changed = true; }
  waiting.hidden = !held.size;
  if (changed) void update();
}, 200);

setInterval(tick, 5000);

function head() {
  const choice = page.spaces.length > 1
    ? h("label", {}, h("span", {}, "space"), h("select", { onchange: (event) => { page.space = event.target.value; screen = null; fill(main); document.dispatchEvent(new Event("space")); } },
      page.spaces.map((name) => h("option", { value: name, selected: name === page.space }, name)))) : null;
  fill(document.querySelector("#where"), ...[choice, h("span", {}, "as ", safe(page.agent), page.readOnly ? " (read only)" : "")].filter(Boolean));
}

let last = "";
function news(told) {
  const now = JSON.stringify([told.down, told.alarms]);
  if (now !== last) alarms(told);
  last = now;
  changed = true;
  if (down && !told.down) void spaces();
  down = told.down;
  waits();
}

// At the lower edge: what comes there moves nothing else.
function alarms({ down: why, alarms: raised }) {
  const bar = document.querySelector("#alarms");
  const open = bar.querySelector("details")?.open;
  const codes = raised.slice(0, 3).map((one) => one.code).join(", ");
  fill(bar, why ? h("p", { class: "down" }, "The daemon does not answer, and what is shown may be old. ", h("code", {}, "crdtsync doctor"), " says why. ", h("span", { class: "small" }, "(", safe(why), ")")) : null, raised.length
    ? h("details", { open }, h("summary", {}, tag(count(raised.length, "alarm"), "warn"), " ", safe(codes), raised.length > 3 ? " …" : null),
      h("ul", {}, raised.slice(0, 50).map((one) => h("li", {}, h("strong", {}, safe(one.code)), " ", safe(one.message), one.remedy ? h("div", {}, "→ ", safe(one.remedy)) : null)))) : null);
}

async function start() {
  const word = location.hash.slice(1);
  if (word && !word.startsWith("/")) {
    history.replaceState(null, "", "/#/fleet"); // it lets in once: nobody need find it in the history
    const refused = await login(word);
    if (refused) { stop(refused); return; }
  }
  follow({ hello: () => { head(); void spaces(); if (screen) changed = true; else void show(); }, news, gone: () => stop() });
}

async function spaces() {
  page.spaces = await call("spaces").catch(() => page.spaces);
  head();
}

function stop(reason) {
  screen = {};
  fill(document.querySelector("#screens"));
  fill(main, h("div", { class: "panel empty" }, h("h1", {}, "This browser is not let in"), h("p", {}, reason || "The page's server has ended, or was started anew."), h("p", {}, "Open the address that ", h("code", {}, "crdtsync ui"), " printed last.")));
}

document.addEventListener("spaces", head);
document.addEventListener("visibilitychange", () => { changed = true; });
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
window.addEventListener("hashchange", () => { if (/^#[^/]/.test(location.hash)) location.reload(); else void show(); }); // a word lets in
void start();
