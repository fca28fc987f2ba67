// Sessions of coding agents as one reads them, and what a view would hand to an agent.

import { call, page } from "/assets/ask.js";
import { ago, count, empty, fill, h, safe, tag } from "/assets/dom.js";

export async function sessions(place, rest) {
  const listed = h("section", { class: "panel stack", "data-hold": true, "aria-label": "Sessions" });
  const detail = h("div", { class: "stack" });
  place.append(h("h1", {}, "Sessions and context"), h("div", { class: "columns" }, h("div", { class: "stack" }, listed, views()), detail));
  let chosen = null;
  let drawn = "";

  async function update() {
    const found = await call("sessions");
    const now = JSON.stringify([found, chosen]);
    if (now === drawn) return;
    drawn = now;
    fill(listed, h("h2", {}, "Saved sessions"), found.length ? h("ul", { class: "list tall" }, found.map((one) => h("li", {}, h("a", { href: `#/sessions/${one.id}`, "aria-current": one.id === chosen ? "true" : null }, h("span", { class: "name" }, safe(one.title || one.id), h("br"), h("span", { class: "small quiet" }, one.agent, " · ", safe(`${one.user}@${one.host}`), " · ", count(one.turns, "turn"), " · ", ago(one.time)))))))
      : empty("None yet. ", h("code", {}, "crdtsync session save --latest"), " saves the one that was written last."));
  }

  async function go(wanted) {
    chosen = wanted || null;
    await update();
    if (!chosen) { fill(detail, h("div", { class: "panel" }, empty("Choose a session to read it."))); return; }
    fill(detail, h("div", { class: "panel" }, empty("Reading …")));
    try { transcript(await call("transcript", { session: chosen })); } catch (error) { fill(detail, h("p", { class: "notice bad" }, safe(error.message))); }
  }

  function transcript(told) {
    const turns = told.turns.map((items, number) => [items, number]).filter(([items]) => items.length);
    const first = Math.max(0, turns.length - 50);
    const box = h("section", { class: "panel stack", "aria-label": "Transcript" });
    const older = first ? h("button", { onclick: () => { older.replaceWith(...turns.slice(0, first).map(([items, number]) => turn(items, number, told))); } }, `show ${count(first, "older turn")}`) : null;
    box.append(...[h("h2", { class: "mono" }, chosen), older, ...turns.slice(first).map(([items, number]) => turn(items, number, told)),
      told.lost.length ? h("details", {}, h("summary", {}, "what a hand-over would not carry"), h("ul", {}, told.lost.map((one) => h("li", {}, `${one.count.toLocaleString()} × `, safe(one.what), ": ", safe(one.why))))) : null].filter(Boolean));
    fill(detail, box);
  }

  function turn(items, number, told) {
    const out = told.excluded.includes(number);
    return h("article", { class: `turn ${out ? "left-out" : ""}` }, h("div", { class: "row spread" }, h("h3", {}, number ? `Turn ${number}` : "Before the first turn", out ? [" ", tag("left out", "warn")] : null),
      number && !page.readOnly ? h("button", { class: "plain small", onclick: async () => { await call("exclude", { session: chosen, turn: number, excluded: !out }); await go(chosen); } }, out ? "take in again" : "leave out") : null), items.map(item));
  }

  function item(one) {
    const images = one.images ? h("span", { class: "small quiet" }, count(one.images, "image")) : null;
    switch (one.type) {
      case "Text": return h("div", {}, h("div", { class: "who" }, { user: "User", assistant: "Agent" }[one.role] ?? "Harness"), h("div", { class: "said" }, safe(one.text)), images);
      case "Thinking": return h("details", {}, h("summary", {}, "thinking"), h("div", { class: "said quiet" }, safe(one.text)));
      case "Call": return h("details", {}, h("summary", {}, h("span", { class: "mono" }, safe(one.name), " ", safe(JSON.stringify(one.arguments).slice(0, 100)))), h("pre", {}, safe(JSON.stringify(one.arguments, null, 2))));
      case "Result": return h("details", {}, h("summary", {}, one.is_error ? "failed" : "result", ` (${one.text.length.toLocaleString()} characters)`), h("pre", {}, safe(one.text)), images);
      default: return h("p", { class: "notice" }, "What was before was made compact: ", safe(one.summary));
    }
  }

  function views() {
    const prefix = h("input", { placeholder: "keys that begin with", "aria-label": "keys that begin with", class: "grow" });
    const budget = h("input", { type: "number", min: 50, max: 200000, value: 4000, "aria-label": "tokens" });
    const query = h("input", { placeholder: "what it is for", "aria-label": "what it is for", class: "grow" });
    const look = async (event) => {
      event.preventDefault();
      try {
        const found = await call("view", { prefix: prefix.value, budget: Number(budget.value), query: query.value });
        fill(detail, h("section", { class: "panel stack" }, h("div", { class: "row spread" }, h("h2", {}, "What an agent would read"), tag(`${found.tokens.toLocaleString()} tokens`)), h("pre", {}, safe(found.text))));
      } catch (error) { fill(detail, h("p", { class: "notice bad" }, safe(error.message))); }
    };
    return h("form", { class: "panel stack", onsubmit: look, "aria-label": "View" }, h("h2", {}, "What a view hands over"), h("div", { class: "row" }, prefix), h("div", { class: "row" }, query), h("div", { class: "row" }, h("label", {}, "tokens", budget), h("button", {}, "look")));
  }

  await go(rest);
  return { go, update };
}
