// The state as of then; checkpoints, what differs, restoring, and taking back what one agent did.

import { call, page } from "/assets/ask.js";
import { author, count, empty, fill, h, marked, safe, shown, table, words } from "/assets/dom.js";
import { keyTree } from "/assets/state.js";

const HOUR_MS = 3600 * 1000;
const SPANS = { "an hour": HOUR_MS, "a day": 24 * HOUR_MS, "a week": 168 * HOUR_MS };

export async function time(place) {
  let span = HOUR_MS;
  let at = null; // a time in ms, a token of a checkpoint, or null: now
  const said = h("div", { role: "status", "aria-live": "polite" });
  const listed = h("div", { class: "stack" });
  const detail = h("div", { class: "stack" });
  const points = h("section", { class: "panel stack" });
  const label = h("strong", {}, "now");
  const slider = h("input", { type: "range", min: 0, max: 1000, value: 1000, "aria-label": "how long ago", oninput: () => move(Number(slider.value)) });
  const choice = h("select", { "aria-label": "how far back", onchange: () => { span = SPANS[choice.value]; move(Number(slider.value)); } }, Object.keys(SPANS).map((name) => h("option", {}, name)));
  place.append(h("h1", {}, "Time"), h("div", { class: "stack" },
    h("section", { class: "panel stack" }, h("div", { class: "row spread" }, h("span", {}, "The state as of ", label), h("label", {}, "back to", choice, "ago")), slider, h("div", { class: "row" }, h("button", { onclick: differ }, "what is different now"), page.readOnly ? null : h("button", { onclick: () => back(true) }, "what would going back do"))),
    said, h("div", { class: "columns" }, h("section", { class: "panel", "aria-label": "Keys" }, listed), detail), points));
  let timer = null;
  const tree = keyTree(listed, { at: () => at, open: async (key) => { await tree.choose(key); await read(key); } });

  function move(value) {
    at = value >= 1000 ? null : Math.round(Date.now() - (span * (1000 - value)) / 1000);
    slider.setAttribute("aria-valuetext", name());
    label.textContent = name();
    clearTimeout(timer);
    timer = setTimeout(() => void refresh(), 120);
  }
  function name() { return at === null ? "now" : typeof at === "number" ? new Date(at).toLocaleString() : "the checkpoint"; }

  async function refresh() {
    try { await tree.update(); fill(said); } catch (error) { say(error); fill(listed, empty("There is nothing to show of that time.")); }
    fill(detail);
  }
  async function read(key) {
    try {
      const found = await call("entry", { key, at });
      fill(detail, h("section", { class: "panel stack" }, h("h2", { class: "mono" }, safe(key)), found ? [author(found), found.parts ? found.parts.map((one) => shown(one.value)) : shown(found.value), h("a", { href: `#/state/${encodeURIComponent(key)}` }, "as it is now")] : empty("It was not there.")));
    } catch (error) { say(error); }
  }
  function say(error) { fill(said, h("p", { class: "notice bad" }, safe(error.message))); }

  async function differ() {
    if (at === null) { say({ message: "Move the slider, or choose a checkpoint, first." }); return; }
    try {
      const found = await call("diff", { before: at });
      fill(detail, h("section", { class: "panel stack" }, h("h2", {}, `${count(found.count, "key")} differ from ${name()}`), found.keys.length ? found.keys.map(difference) : empty("Nothing has changed since then.")));
    } catch (error) { say(error); }
  }
  function difference(one) {
    const [before, after] = [one.before, one.after].map((side) => (side ? words(side.value) ?? "" : ""));
    return h("details", { open: true }, h("summary", { class: "mono" }, safe(one.key), one.before ? (one.after ? "" : " – gone") : " – new"), h("div", { class: "side" }, one.before ? marked(before, after, "del") : h("p", { class: "quiet" }, "not there then"), one.after ? marked(after, before, "ins") : h("p", { class: "quiet" }, "not there now")));
  }

  async function back(dry) {
    if (at === null) { say({ message: "Move the slider, or choose a checkpoint, first." }); return; }
    try { outcome(await call("restore", { point: at, dry_run: dry }), dry, () => back(false), `Go back to ${name()}`); } catch (error) { say(error); }
    if (!dry) await refresh();
  }
  async function undo(agent, dry) {
    const since = Date.now() - span;
    try { outcome(await call("undo", { agent, since, dry_run: dry }), dry, () => undo(agent, false), `Undo ${agent}`); } catch (error) { say(error); }
    if (!dry) await refresh();
  }
  async function fork(name) {
    try {
      await call("fork", { name });
      page.spaces = await call("spaces");
      document.dispatchEvent(new Event("spaces"));
      fill(said, h("p", { class: "notice" }, "The space ", safe(name), " holds what there is now. Choose it above to work in it."));
    } catch (error) { say(error); }
  }
  async function merge(name, dry) {
    try {
      const done = await call("merge_space", { name, dry_run: dry });
      fill(said, h("section", { class: "panel stack" }, h("p", {}, `${dry ? "It would bring" : "It brought"} ${count(done.written.length, "key")} back, and ${dry ? "remove" : "removed"} ${done.removed.length.toLocaleString()}.`), list([...done.written, ...done.removed]),
        Object.entries(done.left).length ? [h("h3", {}, "left alone"), list(Object.entries(done.left).map((one) => one.join(": ")))] : null, dry && done.written.length + done.removed.length ? h("div", { class: "row" }, h("button", { class: "main", onclick: () => merge(name, false) }, `Merge ${name} back`)) : null));
    } catch (error) { say(error); }
  }
  function outcome(done, dry, go, title) {
    const { restored, removed, left } = done.counts;
    const nothing = !restored && !removed;
    fill(said, h("section", { class: "panel stack" }, h("p", {}, `${dry ? "It would bring" : "It brought"} ${count(restored, "key")} back and ${dry ? "remove" : "removed"} ${removed.toLocaleString()}${left ? `, and ${dry ? "leave" : "left"} ${left.toLocaleString()} alone` : ""}.`),
      table(["brought back", "removed", "left alone"], [[list(done.restored), list(done.removed), list(done.left)]]), dry && !nothing ? h("div", { class: "row" }, h("button", { class: "main", onclick: go }, title)) : null));
  }
  function list(keys) { return keys.length ? keys.map((one) => h("div", { class: "mono small" }, safe(one))) : h("span", { class: "quiet" }, "–"); }

  async function drawPoints() {
    const found = await call("checkpoints");
    const field = h("input", { placeholder: "name", "aria-label": "name of the checkpoint", required: true });
    const copy = h("input", { placeholder: "name of the copy", "aria-label": "name of the copy", required: true });
    const agent = h("input", { placeholder: "agent", "aria-label": "agent whose work is taken back", required: true });
    fill(points, h("h2", {}, "Checkpoints"),
      found.length ? table(["name", "keys", "made", "note", ""], found.map((one) => [h("span", { class: "mono" }, safe(one.name)), one.keys === null ? "" : one.keys.toLocaleString(), author(one), safe(one.note), h("button", { onclick: () => { at = one.cut; label.textContent = one.name; void refresh(); } }, "look")])) : empty("None yet: a checkpoint keeps what there is now, under a name."),
      page.readOnly ? null : h("div", { class: "row" },
        h("form", { class: "row", onsubmit: async (event) => { event.preventDefault(); try { await call("checkpoint", { name: field.value }); await drawPoints(); } catch (error) { say(error); } } }, field, h("button", {}, "keep what there is now")),
        h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); void (event.submitter.value === "merge" ? merge(copy.value, true) : fork(copy.value)); } }, copy, h("button", { value: "fork" }, "try out in a copy"), h("button", { value: "merge" }, "what would merging it back do")),
        h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); void undo(agent.value, true); } }, agent, h("button", {}, "what would undoing its work do"))));
  }
  await Promise.all([refresh(), drawPoints()]);
  return { update: async () => { if (at === null) await tree.update(); } };
}
