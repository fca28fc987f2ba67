// Hosts as a picture, with links, lag, versions, clocks and disks.

import { call } from "/assets/ask.js";
import { ago, count, empty, fill, h, s, safe, size, tag } from "/assets/dom.js";

export async function fleet(place) {
  let drawn = "";
  async function update() {
    const told = await call("fleet");
    const now = JSON.stringify(told, (name, value) => (["uptime_s", "rtt_ms", "last_seen", "told", "counters", "agents", "usage", "last_commit_ms"].includes(name) ? undefined : value));
    if (now === drawn) return;
    drawn = now;
    fill(place, h("div", { class: "stack" }, h("h1", {}, "Fleet"), h("div", { class: "panel" }, picture(told, place.clientWidth < 520 ? 400 : 760)), h("div", { class: "cards" }, self(told), told.peers.map(peer))));
  }
  await update();
  const timer = setInterval(() => { if (place.isConnected) void update().catch(() => {}); else clearInterval(timer); }, 1000);
  return {};
}

function isLinked(one) { return one.state === "connected"; }

function picture(told, width) {
  const peers = told.peers;
  if (!peers.length) return empty("This daemon is alone. ", h("code", {}, "crdtsync cluster invite"), " lets others join.");
  const height = peers.length < 3 ? 150 : 300 + Math.max(0, peers.length - 6) * 16;
  const [x, y] = [width / 2, height / 2];
  const spots = peers.map((one, number) => {
    const angle = (number / peers.length) * 2 * Math.PI - Math.PI / 2 + (peers.length === 1 ? Math.PI / 2 : peers.length === 2 ? Math.PI / 2 : 0);
    return [one, x + Math.cos(angle) * (width / 2 - 70), y + Math.sin(angle) * (height / 2 - 55)];
  });
  const links = spots.map(([one, px, py]) => s("line", { x1: x, y1: y, x2: px, y2: py, class: isLinked(one) ? "" : one.via ? "far" : "bad" }));
  const lags = spots.map(([one, px, py]) => s("text", { x: (x + px) / 2, y: (y + py) / 2 - 6, class: "sub" }, lag(one)));
  const nodes = [[null, x, y], ...spots].map(([one, px, py]) => [
    s("circle", { cx: px, cy: py, r: one ? 24 : 30, class: !one || isLinked(one) ? "" : one.via ? "far" : "bad" }),
    s("text", { x: px, y: py + (one ? 42 : 48) }, one ? one.name : told.node.name),
    s("text", { x: px, y: py + 4, class: "sub" }, one ? (isLinked(one) ? "" : one.via ? "via" : "cut") : "here"),
  ]);
  const label = `${told.node.name} and ${peers.map((one) => `${one.name}: ${one.state}`).join(", ")}`;
  return s("svg", { class: "fleet", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, links, lags, nodes);
}

function lag(one) {
  const behind = Object.values(one.behind ?? {}).reduce((sum, number) => sum + number, 0);
  const ahead = Object.values(one.ahead ?? {}).reduce((sum, number) => sum + number, 0);
  const parts = [];
  if (isLinked(one) && one.rtt_ms !== null) parts.push(`${one.rtt_ms < 10 ? one.rtt_ms.toFixed(1) : Math.round(one.rtt_ms)} ms`);
  if (behind) parts.push(`lacks ${behind.toLocaleString()}`);
  if (ahead) parts.push(`has ${ahead.toLocaleString()} more`);
  return parts.join(" · ");
}

function self(told) {
  const { node, store } = told;
  const keys = told.spaces.reduce((sum, space) => sum + space.keys, 0);
  return h("section", { class: "panel" }, h("div", { class: "row spread" }, h("h2", {}, safe(node.name)), tag(node.state, node.state === "ready" ? "good" : "warn")),
    h("dl", {}, pair("version", node.version), pair("disk", `${size(store.bytes)}, ${size(store.free_bytes)} free`), pair("holds", `${count(keys, "key")} in ${count(told.spaces.length, "space")}`), pair("agents", String(told.agents.length)), pair("alarms", told.alarms.length ? told.alarms.map((one) => h("div", {}, h("strong", {}, one.code), " ", safe(one.message))) : "none")));
}

function peer(one) {
  const health = one.health;
  const alarms = health?.alarms ?? [];
  return h("section", { class: "panel" }, h("div", { class: "row spread" }, h("h2", {}, safe(one.name)), tag(one.state, isLinked(one) ? "good" : one.via ? "warn" : "bad")),
    h("dl", {}, pair("version", one.version ?? "?"), pair("disk", health ? `${size(health.bytes)}, ${size(health.free_bytes)} free` : "not told"), pair("link", [lag(one) || (one.via ? ["by way of ", safe(one.via)] : "nothing lacking")]),
      pair("clock", one.clock_skew_ms === null || one.clock_skew_ms === undefined ? "?" : `${Math.abs(one.clock_skew_ms)} ms ${one.clock_skew_ms < 0 ? "behind" : "ahead"}`), pair("last seen", ago(one.last_seen)), pair("alarms", alarms.length ? alarms.map((alarm) => tag(alarm, "warn")) : "none"), one.last_error ? pair("last error", safe(one.last_error)) : null));
}

function pair(name, value) { return [h("dt", {}, name), h("dd", {}, value)]; }
