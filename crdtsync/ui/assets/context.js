// What a view hands to an agent: its text, what each key takes of the tokens, and what was left out.

import { call } from "/assets/ask.js";
import { count, empty, fill, h, latest, redraw, safe, shown, table, tag, wrong } from "/assets/dom.js";
import { place } from "/assets/state.js";

export async function context(box, rest) {
  const listed = h("section", { class: "panel stack", "aria-label": "Views" });
  const detail = h("div", { class: "stack" });
  const prefix = h("input", { placeholder: "plan/", "aria-label": "keys that begin with", class: "grow" });
  const query = h("input", { placeholder: "what it is for", "aria-label": "what it is for", class: "grow" });
  const budget = h("input", { type: "number", min: 50, max: 200000, value: 4000, "aria-label": "tokens" });
  const form = h("form", { class: "panel stack", onsubmit: (event) => { event.preventDefault(); void look({ prefix: prefix.value, budget: Number(budget.value), query: query.value }); }, "aria-label": "View" },
    h("h2", {}, "Try a view out"), h("div", { class: "row" }, prefix), h("div", { class: "row" }, query), h("div", { class: "row" }, h("label", {}, "tokens", budget), h("button", { class: "main" }, "look")));
  box.append(h("h1", {}, "Context"), h("div", { class: "columns" }, h("div", { class: "stack" }, listed, form), detail));
  let chosen = null;
  const begin = latest();

  async function update() {
    const found = await call("views");
    redraw(listed, [found, chosen], () => [h("h2", {}, "Views"), found.length ? h("ul", { class: "list tall" }, found.map((one) => h("li", {}, h("a", { href: `#/context/${encodeURIComponent(one)}`, "aria-current": one === chosen ? "true" : null }, safe(one)))))
      : empty("None yet. ", h("code", {}, "crdtsync view define"), " stores one for all agents; below you can try one out.")]);
  }
  async function go(wanted) {
    chosen = wanted || null;
    listed.drawn = null;
    begin();
    if (!chosen) fill(detail, h("div", { class: "panel" }, empty("Choose a view, or try one out, to see what an agent would read.")));
    await Promise.all([update(), chosen ? look({ name: chosen }) : null]);
  }
  async function look(wanted) {
    const isLast = begin();
    try {
      const told = await call("view", wanted);
      if (!isLast()) return;
      const rest = told.tokens - told.parts.reduce((sum, one) => sum + one.tokens, 0);
      const bar = (tokens) => h("meter", { max: Math.max(1, told.tokens), value: tokens, "aria-label": `${tokens} of ${told.tokens} tokens` });
      fill(detail, h("section", { class: "panel stack" }, h("div", { class: "row spread" }, h("h2", {}, "What an agent reads"), tag(count(told.tokens, "token"))), shown(told.text || "nothing")),
        h("section", { class: "panel stack" }, h("h2", {}, "Where the tokens go"), told.parts.length ? table(["key", "tokens", "", ""], [...told.parts.map((one) => [h("a", { href: place(one.key), class: "mono" }, safe(one.key)), one.tokens.toLocaleString(), bar(one.tokens), one.is_whole ? "" : tag("shortened", "warn")]), ...(rest > 0 ? [["what was left out, and how to get it", rest.toLocaleString(), bar(rest), ""]] : [])]) : empty(told.left_out_count ? "No key fits into so few tokens. Give it more." : "There is nothing under these keys.")),
        h("section", { class: "panel stack" }, h("h2", {}, told.left_out_count ? `${count(told.left_out_count, "key")} left out` : "Nothing was left out"), told.left_out.length ? h("ul", { class: "list" }, told.left_out.map((one) => h("li", {}, h("a", { href: place(one) }, h("span", { class: "mono" }, safe(one)))))) : null));
    } catch (error) { if (isLast()) fill(detail, wrong(error)); }
  }
  await go(rest);
  return { go, update };
}
