// Who is here and on what; tasks and claims as a board; questions that wait for a person.

import { call, page } from "/assets/ask.js";
import { ago, count, empty, fill, h, latest, plain, redraw, safe, shown, table, tag, words, wrong } from "/assets/dom.js";

const STATES = [["open", "To do"], ["claimed", "In work"], ["done", "Done"], ["failed", "Failed"]];

export async function work(place) {
  const said = h("div", { role: "alert" });
  const prefix = h("input", { value: "tasks/", "aria-label": "tasks whose keys begin with", onchange: () => { forced = true; void update(); } });
  const asks = h("section", { class: "panel stack" });
  const board = h("div", { class: "board" });
  const who = h("section", { class: "panel" });
  const claims = h("section", { class: "panel" });
  place.append(h("h1", {}, "Work"), h("div", { class: "stack" }, said, asks, h("label", { class: "small quiet" }, "tasks whose keys begin with", prefix), board, h("div", { class: "cards roomy" }, who, claims)));

  const begin = latest();
  let forced = false; // somebody did something here, and is to see what came of it

  async function act(name, content) {
    try { await call(name, content); fill(said); } catch (error) { fill(said, wrong(error)); }
    forced = true;
    await update();
  }

  async function update() {
    const isLast = begin();
    const told = await call("work", { tasks_in: prefix.value });
    if (!isLast()) return;
    if (forced) for (const part of [asks, board, who, claims]) part.drawn = null;
    forced = false;
    redraw(asks, told.asks, () => [h("h2", {}, "Questions that wait for a person"), told.asks.length ? told.asks.map(question) : empty("Nobody waits for an answer. An agent asks with ", h("code", {}, "state.ask(…)"), ".")]);
    redraw(board, told.tasks, () => STATES.map(([state, title]) => column(title, told.tasks.filter((one) => one.state === state || (state === "open" && !STATES.some(([other]) => other === one.state))))));
    redraw(who, told.who, () => [h("h2", {}, "Who is here"), told.who.length ? table(["agent", "host", "role", "doing", "since"], told.who.map((one) => [safe(one.agent), safe(one.node), safe(one.role ?? ""), safe(one.status), ago(one.since)])) : empty("Nobody is attached.")]);
    redraw(claims, told.claims, () => [h("h2", {}, "What is claimed"), told.claims.length ? table(["key", "by", "since", ""], told.claims.map((one) => [h("span", { class: "mono" }, safe(one.key)), [safe(one.agent), " on ", safe(one.node)], ago(one.since), page.readOnly ? null : h("button", { onclick: () => { if (confirm(`Free ${plain(one.key)}? ${plain(one.agent)} is told that the claim is lost.`)) void act("release", { key: one.key, fence: one.fence }); } }, "free")])) : empty("Nothing is claimed.")]);
  }

  function question(one) {
    const note = h("input", { placeholder: "note", "aria-label": `note to ${plain(one.name)}`, class: "grow" });
    const field = one.options.length ? null : h("input", { placeholder: "answer", "aria-label": `answer to ${plain(one.name)}`, class: "grow" });
    const send = (value) => act("answer", { name: one.name, value, note: note.value });
    return h("form", { class: "value", onsubmit: (event) => { event.preventDefault(); if (field) void send(field.value); } },
      h("div", { class: "row spread" }, h("strong", {}, safe(one.question || one.name)), h("span", { class: "small quiet" }, safe(one.agent), " · ", ago(one.since))),
      one.context === null ? null : shown(one.context),
      one.answers.length ? h("p", { class: "notice" }, "Answered at once: ", safe(one.answers.map((two) => `${words(two.value)} (${two.agent})`).join(", "))) : null,
      page.readOnly ? null : h("div", { class: "row" }, one.options.map((option) => h("button", { type: "button", onclick: () => send(option) }, safe(words(option)))), field, note, field ? h("button", {}, "answer") : null));
  }

  function column(title, tasks) {
    return h("section", { class: "panel stack", "aria-label": title }, h("div", { class: "row spread" }, h("h2", {}, title), tag(String(tasks.length))),
      tasks.slice(0, 50).map((one) => h("details", { class: "value", "data-name": one.key }, h("summary", {}, h("span", { class: "mono" }, safe(one.key)), " ", one.worker ? h("span", { class: "small quiet" }, safe(one.worker)) : null, one.crossed?.length ? tag("done twice", "warn") : null, one.state in { open: 1, claimed: 1, done: 1, failed: 1 } ? null : tag(one.state, "warn")),
        shown(one.input), one.result === null ? null : [h("h3", {}, "result"), shown(one.result)], one.error ? h("p", { class: "notice bad" }, safe(one.error)) : null,
        h("p", { class: "small quiet" }, `${count(one.attempts, "attempt")} of ${one.attempts_max}`), one.state === "failed" && !page.readOnly ? h("button", { onclick: () => act("retry", { key: one.key }) }, "try again") : null)),
      tasks.length ? (tasks.length > 50 ? h("p", { class: "quiet small" }, `and ${tasks.length - 50} more`) : null) : empty("–"));
  }

  await update();
  return { update };
}
