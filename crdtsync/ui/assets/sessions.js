// Sessions of coding agents as one reads them: a page at a time, followed while they grow; branches, what is left out,
// and what a hand-over would lose.

import { call, page } from "/assets/ask.js";
import { ago, count, empty, fill, h, latest, plain, redraw, safe, size, tag, wrong } from "/assets/dom.js";

const SAME = 20; // items at the end that may have changed as a session grew
const SHOWN_MAX = 400;

export async function sessions(box, rest) {
  const listed = h("section", { class: "panel stack", "aria-label": "Sessions" });
  const detail = h("div", { class: "stack" });
  box.append(h("h1", {}, "Sessions"), h("div", { class: "columns" }, listed, detail));
  let chosen = null;
  let branch = 0;
  let known = ""; // of the chosen session
  let told = null; // what was read of it
  let items = []; // from told.start on, each with its element
  const begin = latest(); // to read another part
  const asking = latest(); // what a hand-over would do

  const lines = h("div", { class: "turns" });
  const older = h("div", { class: "row" });
  const newer = h("div", { class: "row" });
  const said = h("div", {});

  async function update() {
    const found = await call("sessions");
    redraw(listed, [found, chosen], () => [h("h2", {}, "Saved sessions"), found.length ? h("ul", { class: "list tall" }, found.map((one) => h("li", {}, h("a", { href: `#/sessions/${encodeURIComponent(one.id)}`, "aria-current": one.id === chosen ? "true" : null }, h("span", { class: "name" }, safe(one.title || one.id), h("br"), h("span", { class: "small quiet" }, safe(one.agent), " · ", safe(`${one.user}@${one.host}`), " · ", count(one.turns, "turn"), " · ", size(one.bytes), " · ", ago(one.time)))))))
      : empty("None yet. ", h("code", {}, "crdtsync session save --latest"), " saves the one that was written last.")]);
    const now = found.find((one) => one.id === chosen);
    if (now && told && version(now) !== known) { known = version(now); await grow(); }
  }
  function version(one) { return `${one.time} ${one.bytes} ${one.lines}`; }

  async function go(wanted) {
    chosen = wanted || null;
    branch = 0;
    await open();
  }
  async function open() {
    told = null;
    listed.drawn = null;
    asking();
    fill(said);
    const isLast = begin();
    await update();
    if (!isLast()) return;
    if (!chosen) { fill(detail, h("div", { class: "panel" }, empty("Choose a session to read it."))); return; }
    fill(detail, h("div", { class: "panel" }, empty("Reading …")));
    try {
      const found = await call("transcript", { session: chosen, branch });
      if (!isLast()) return; // somebody went on meanwhile
      told = found;
    } catch (error) { if (isLast()) fill(detail, wrong(error)); return; }
    known = version(told.session);
    items = told.items.map(made);
    fill(lines);
    fill(detail, h("section", { class: "panel stack", "aria-label": "Transcript" }, head(), said, older, lines, newer));
    draw(0);
  }

  // Only what is new is drawn: what somebody reads stays where it is.
  async function grow() {
    if (branch || told.start + items.length < told.count) { await edges(); return; }
    do {
      const before = told;
      const from = Math.max(told.start, told.start + items.length - SAME);
      const next = await call("transcript", { session: chosen, start: from });
      if (told !== before) return; // somebody turned a page meanwhile
      let at = from - told.start;
      for (const one of next.items) { if (items[at]?.text !== JSON.stringify(one)) break; at += 1; }
      for (const one of items.splice(at)) one.element.remove();
      items.push(...next.items.slice(told.start + at - from).map(made));
      told = { ...next, start: told.start };
      draw(at);
    } while (told.start + items.length < told.count && items.length < SHOWN_MAX);
  }
  async function edges() {
    const before = told;
    const next = await call("transcript", { session: chosen, branch, start: told.start });
    if (told === before) { told.count = next.count; bounds(); }
  }
  function made(one) { return { text: JSON.stringify(one), one }; }

  // Elements from number `at` on; a turn that begins gets its head.
  function draw(at) {
    for (let number = at; number < items.length; number += 1) {
      items[number].element = line(number);
      lines.append(items[number].element);
    }
    bounds();
  }
  function line(number) {
    const { one } = items[number];
    const begins = number === 0 || items[number - 1].one.turn !== one.turn;
    return h("div", { class: told.excluded.includes(one.turn) ? "turn left-out" : "turn" }, begins ? turn(one.turn) : null, item(one, told.start + number));
  }
  function bounds() {
    const after = told.count - told.start - items.length;
    fill(older, told.start ? h("button", { onclick: () => void turnTo(Math.max(0, told.start - 100)) }, `${told.start.toLocaleString()} earlier`) : null);
    fill(newer, after > 0 ? h("button", { onclick: () => void turnTo(told.start + items.length) }, `${after.toLocaleString()} later`) : null);
  }
  async function turnTo(start) {
    const isLast = begin();
    const next = await call("transcript", { session: chosen, branch, start });
    if (!isLast()) return;
    const isNext = start === told.start + items.length && items.length + next.items.length <= SHOWN_MAX;
    if (isNext) { const at = items.length; items.push(...next.items.map(made)); told = { ...next, start: told.start }; draw(at); return; }
    told = next;
    items = next.items.map(made);
    fill(lines);
    draw(0);
    lines.scrollIntoView();
  }

  function head() {
    const { session } = told;
    const others = told.agents.filter((one) => one !== session.agent);
    return [h("div", { class: "row spread" }, h("h2", {}, safe(session.title || session.id)), h("span", { class: "row" }, tag(session.agent), session.model ? tag(plain(session.model)) : null)),
      h("p", { class: "small quiet" }, h("span", { class: "mono" }, safe(session.id)), " · ", safe(`${session.user}@${session.host}`), " in ", h("span", { class: "mono" }, safe(session.cwd)), " · saved ", ago(session.time)),
      session.needs.length ? h("p", {}, "It goes on from ", session.needs.map((one) => h("a", { href: `#/sessions/${encodeURIComponent(one)}` }, safe(one)))) : null,
      told.branches > 1 ? h("p", { class: "notice" }, `It was gone on with in ${told.branches} places. `, h("label", {}, "Shown:", h("select", { onchange: (event) => { branch = Number(event.target.value); void open(); } }, Array.from({ length: told.branches }, (_, number) => h("option", { value: number, selected: number === branch }, number ? `branch ${number + 1}` : "the newest branch"))))) : null,
      told.excluded.length ? h("p", { class: "notice" }, `Left out of what is handed over: ${count(told.excluded.length, "turn")} (${told.excluded.join(", ")}).`) : null,
      h("div", { class: "row" }, page.readOnly ? null : [...others.map((one) => h("button", { onclick: () => handOver({ to: one }) }, `hand over to ${one}`)), h("button", { onclick: () => handOver({}) }, "branch")],
        told.lost.length === 0 ? h("span", { class: "quiet" }, "nothing would be lost") : h("details", {}, h("summary", {}, `${count(told.lost.length, "loss", "losses")} in a hand-over`), h("ul", { class: "small" }, told.lost.map((one) => h("li", {}, safe(one))))))];
  }
  async function handOver(wanted, dry = true) {
    const isLast = asking();
    try {
      const done = await call("hand_over", { session: chosen, ...wanted, dry_run: dry });
      if (dry && !isLast()) return;
      fill(said, h("section", { class: "value", "aria-label": "Hand-over" }, h("p", {}, dry ? "It would make" : "It made", ` a session of ${done.to} on this machine, with ${count(done.turns, "turn")}${done.state === "new" ? "" : ` (${done.state})`}:`), h("p", { class: "mono small" }, safe(done.path)),
        h("p", {}, done.lost.length ? "What is not carried over:" : "Nothing is lost."), done.lost.length ? h("ul", { class: "small" }, done.lost.map((one) => h("li", {}, safe(one)))) : null,
        dry ? h("div", {}, h("button", { class: "main", onclick: () => handOver(wanted, false) }, "make it")) : [h("p", {}, "Go on with it:"), h("pre", {}, safe(done.command))]));
    } catch (error) { if (!dry || isLast()) fill(said, wrong(error)); }
  }

  function turn(number) {
    const out = told.excluded.includes(number);
    const change = async () => {
      try { await call("exclude", { session: chosen, turn: number, excluded: !out }); } catch (error) { fill(said, wrong(error)); return; }
      told.excluded = out ? told.excluded.filter((one) => one !== number) : [...told.excluded, number].sort((one, two) => one - two);
      for (const [at, one] of items.entries()) if (one.one.turn === number) { const anew = line(at); one.element.replaceWith(anew); one.element = anew; }
      fill(detail.firstChild, head(), said, older, lines, newer);
    };
    return h("div", { class: "row spread" }, h("h3", {}, number ? `Turn ${number}` : "Before the first turn", out ? [" ", tag("left out", "warn")] : null),
      number && !page.readOnly ? h("span", { class: "row" }, h("button", { class: "plain small", onclick: () => handOver({ at: number }) }, "branch here"), h("button", { class: "plain small", onclick: () => void change() }, out ? "take in again" : "leave out")) : null);
  }

  function item(one, number) {
    const images = one.images ? h("span", { class: "small quiet" }, count(one.images, "image")) : null;
    const text = (element) => {
      fill(element, safe(one.text));
      if (one.chars <= one.text.length) return element;
      const more = h("button", { class: "plain small", onclick: async () => { const whole = await call("item", { session: chosen, branch, number }); fill(element, safe(whole.text)); fill(more.parentElement, whole.chars > whole.text.length ? h("span", { class: "small quiet" }, `the first part of ${whole.chars.toLocaleString()} characters`) : null); } }, `more of ${one.chars.toLocaleString()} characters`);
      return [element, h("div", {}, more)];
    };
    switch (one.type) {
      case "Text": return h("div", {}, h("div", { class: "who" }, { user: "User", assistant: "Agent" }[one.role] ?? "Harness"), text(h("div", { class: "said" })), images);
      case "Thinking": return h("details", {}, h("summary", {}, "thinking"), text(h("div", { class: "said quiet" })));
      case "Call": return h("details", {}, h("summary", {}, "→ ", h("span", { class: "mono" }, safe(one.name), " ", safe(one.text.replace(/\s+/g, " ").slice(0, 100)))), text(h("pre", {})));
      case "Result": return h("details", {}, h("summary", {}, "← ", one.is_error ? tag("failed", "bad") : null, ` ${count(one.chars, "character")}`), text(h("pre", {})), images);
      default: return h("div", { class: "notice" }, "What was before was made compact. ", text(h("div", { class: "said" })));
    }
  }

  await go(rest);
  return { go, update };
}
