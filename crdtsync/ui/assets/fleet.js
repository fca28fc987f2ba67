// Hosts as a picture, with links, lag, versions, clocks and disks; alarms with their remedy; the doctor's findings.

import { call } from "/assets/ask.js";
import { ago, count, empty, fill, h, plain, redraw, s, safe, size, table, tag, wrong } from "/assets/dom.js";

const EVERY_MS = 500; // a cut is to be seen within a second
const FAR_EVERY = 10; // times: then hosts that are reached over others are asked, too
const RESTLESS = new Set(["uptime_s", "rtt_ms", "last_seen", "told", "counters", "usage", "last_commit_ms", "commits", "version_vector", "digest", "clock_skew_ms"]);

export async function fleet(place) {
  const drawing = h("div", { class: "panel" });
  const cards = h("div", { class: "cards" });
  const found = h("section", { class: "panel stack", "aria-label": "Findings", hidden: true });
  const ask = h("button", { onclick: examine }, "ask the doctor");
  place.append(h("div", { class: "stack" }, h("div", { class: "row spread" }, h("h1", {}, "Fleet"), ask), found, drawing, cards));
  let number = 0;
  let asking = false;

  async function look() {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const told = await call("fleet", { far: number % FAR_EVERY === 0 });
      number += 1;
      told.peers.sort((one, two) => String(one.name).localeCompare(String(two.name))); // each keeps its place
      const now = calm(told);
      redraw(drawing, [now, place.clientWidth < 520], () => picture(told, place.clientWidth < 520 ? 400 : 760), false);
      redraw(cards, now, () => [self(told), told.peers.map(peer)]);
    } finally { asking = false; }
  }
  async function examine() {
    ask.disabled = true;
    found.hidden = false;
    fill(found, h("h2", {}, "The doctor looks this host over …"));
    try {
      const order = { problem: 0, warning: 1, ok: 2 };
      const told = (await call("doctor")).sort((one, two) => order[one.state] - order[two.state]);
      const bad = told.filter((one) => one.state !== "ok").length;
      fill(found, h("div", { class: "row spread" }, h("h2", {}, bad ? `The doctor found ${count(bad, "thing")} to look after` : "The doctor found nothing wrong"), h("button", { onclick: () => { found.hidden = true; } }, "close")),
        table(["", "of", "finding"], told.map((one) => [tag(one.state, { ok: "good", problem: "bad" }[one.state] ?? "warn"), safe(one.check), [safe(one.message), one.remedy ? h("div", { class: "quiet" }, "→ ", safe(one.remedy)) : null]])));
    } catch (error) { fill(found, wrong(error)); }
    ask.disabled = false;
  }
  await look();
  const timer = setInterval(() => { if (place.isConnected) void look().catch(() => {}); else clearInterval(timer); }, EVERY_MS);
  return {};
}

// Without what is never the same twice.
function calm(told) {
  return JSON.stringify(told, (name, value) => (RESTLESS.has(name) ? undefined : value));
}

function isLinked(one) { return one.state === "connected"; }

function picture(told, width) {
  const peers = told.peers;
  if (!peers.length) return empty("This daemon is alone. ", h("code", {}, "crdtsync cluster invite"), " lets others join.");
  const height = peers.length < 3 ? 160 : 320 + Math.max(0, peers.length - 6) * 16;
  const [x, y] = [peers.length === 1 ? width / 4 : width / 2, height / 2];
  const turn = peers.length === 1 ? Math.PI / 2 : peers.length === 2 ? -Math.PI / 2 : 0;
  const spots = peers.map((one, number) => {
    const angle = (number / peers.length) * 2 * Math.PI - Math.PI / 2 + turn;
    return [one, x + Math.cos(angle) * (peers.length === 1 ? width / 2 : width / 2 - 75), y + Math.sin(angle) * (height / 2 - 65)];
  });
  const links = spots.map(([one, px, py]) => s("line", { x1: x, y1: y, x2: px, y2: py, class: isLinked(one) ? "" : one.via ? "far" : "bad" }));
  const lags = spots.map(([one, px, py]) => s("text", { x: (x + px) / 2, y: (y + py) / 2 - 8, class: "sub" }, lag(one)));
  const nodes = [[null, x, y], ...spots].map(([one, px, py]) => [
    s("circle", { cx: px, cy: py, r: one ? 24 : 30, class: !one || isLinked(one) ? "" : one.via ? "far" : "bad" }),
    s("text", { x: px, y: py + (one ? 42 : 48) }, plain(one ? one.name : told.node.name)),
    s("text", { x: px, y: py + (one ? 58 : 64), class: "sub" }, plain(alarmsOf(one ?? told).length ? count(alarmsOf(one ?? told).length, "alarm") : "")),
    s("text", { x: px, y: py + 4, class: "sub" }, one ? (isLinked(one) ? "" : one.via ? "via" : "cut") : "here"),
  ]);
  const label = `${told.node.name} and ${peers.map((one) => `${one.name}: ${one.state}`).join(", ")}`;
  return s("svg", { class: "fleet", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": plain(label) }, links, lags, nodes);
}

function alarmsOf(one) { return one.alarms ?? one.health?.alarms ?? []; }

function sum(numbers) { return Object.values(numbers ?? {}).reduce((all, one) => all + one, 0); }

function lag(one) {
  const parts = [];
  if (isLinked(one) && typeof one.rtt_ms === "number") parts.push(`${one.rtt_ms < 10 ? one.rtt_ms.toFixed(1) : Math.round(one.rtt_ms)} ms`);
  if (sum(one.behind)) parts.push(`lacks ${sum(one.behind).toLocaleString()}`);
  if (sum(one.ahead)) parts.push(`has ${sum(one.ahead).toLocaleString()} more`);
  return parts.join(" · ");
}

function self(told) {
  const { node, store } = told;
  const keys = told.spaces.reduce((all, space) => all + space.keys, 0);
  const conflicts = told.spaces.reduce((all, space) => all + space.siblings, 0);
  return h("section", { class: "panel" }, h("div", { class: "row spread" }, h("h2", {}, safe(node.name)), tag(node.state, node.state === "ready" ? "good" : "warn")),
    h("dl", {}, pair("version", safe(node.version)), pair("disk", disk(store)), pair("holds", `${count(keys, "key")} in ${count(told.spaces.length, "space")}`),
      conflicts ? pair("disagreed", h("a", { href: "#/state" }, count(conflicts, "value"), " beside another")) : null, pair("agents", String(told.agents.length)), pair("alarms", alarms(told.alarms))));
}

function disk(store) { return typeof store?.bytes === "number" ? `${size(store.bytes)}, ${size(store.free_bytes)} free` : "not told"; }

function peer(one) {
  const skew = one.clock_skew_ms;
  return h("section", { class: "panel" }, h("div", { class: "row spread" }, h("h2", {}, safe(one.name)), tag(one.state, isLinked(one) ? "good" : one.via ? "warn" : "bad")),
    h("dl", {}, pair("version", safe(one.version ?? "?")), pair("disk", disk(one.health)), pair("link", [lag(one) || (one.via ? ["by way of ", safe(one.via)] : isLinked(one) ? "nothing lacking" : "none")]),
      pair("clock", typeof skew !== "number" ? "?" : Math.abs(skew) < 2 ? "as here" : `${Math.abs(skew)} ms ${skew < 0 ? "behind" : "ahead"}`), pair("last seen", ago(one.last_seen)), pair("alarms", alarms(alarmsOf(one))), one.last_error ? pair("last error", safe(one.last_error)) : null));
}

function alarms(raised) {
  return raised.length ? h("ul", { class: "alarms" }, raised.slice(0, 20).map((one) => h("li", {}, h("strong", {}, safe(one.code)), " ", safe(one.message ?? ""), one.remedy ? h("div", { class: "quiet" }, "→ ", safe(one.remedy)) : null))) : "none";
}

function pair(name, value) { return [h("dt", {}, name), h("dd", {}, value)]; }
