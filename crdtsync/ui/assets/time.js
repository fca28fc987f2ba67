// The state as of then; checkpoints, what differs, restoring, and taking back what one agent did.

import { call, page } from "/assets/ask.js";
import { author, count, empty, fill, h, marked, plain, redraw, safe, shown, table, words, wrong } from "/assets/dom.js";
import { keyTree, place as address } from "/assets/state.js";

const HOUR_MS = 3600 * 1000;
const SPANS = { "an hour": HOUR_MS, "a day": 24 * HOUR_MS, "a week": 168 * HOUR_MS };

export async function time(place) {
  let span = HOUR_MS;
  let at = null; // a time in ms, a token of a checkpoint, or null: now
  let named = null; // the checkpoint that is shown
  const said = h("div", { role: "status", "aria-live": "polite" });
  const listed = h("div", { class: "stack" });
  const detail = h("div", { class: "stack" });
  const kept = h("section", { class: "panel stack" });
  const points = h("div", { class: "stack" });
  const label = h("strong", {}, "now");
  const slider = h("input", { type: "range", min: 0, max: 1000, value: 1000, "aria-label": "how long ago", "aria-valuetext": "now", oninput: () => move(Number(slider.value)) });
  const choice = h("select", { "aria-label": "how far back", onchange: () => { span = SPANS[choice.value]; move(Number(slider.value)); } }, Object.keys(SPANS).map((name) => h("option", {}, name)));
  place.append(h("h1", {}, "Time"), h("div", { class: "stack" },
    h("section", { class: "panel stack" }, h("div", { class: "row spread" }, h("span", {}, "The state as of ", label), h("label", {}, "back to", choice, "ago")), slider, h("div", { class: "row" }, h("button", { onclick: differ }, "what is different now"), page.readOnly ? null : h("button", { onclick: () => back(true) }, "what would going back do"))),
    kept, said, h("div", { class: "columns" }, h("section", { class: "panel", "aria-label": "Keys" }, listed), detail), points));
  let timer = null;
  const tree = keyTree(listed, { at: () => at, open: async (key) => { await tree.choose(key); await read(key); } });

  function move(value) {
    named = null;
    at = value >= 1000 ? null : Math.round(Date.now() - (span * (1000 - value)) / 1000);
    slider.setAttribute("aria-valuetext", name());
    label.textContent = name();
    clearTimeout(timer);
    timer = setTimeout(() => void refresh(), 120);
  }
  function name() { return at === null ? "now" : typeof at === "number" ? new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : named; }

  async function refresh() {
    try { await tree.update(); fill(said); } catch (error) { say(error); fill(listed, empty("There is nothing to show of that time.")); }
    fill(detail);
  }
  async function read(key) {
    try {
      const wanted = at;
      const found = await call("entry", { key, at });
      if (wanted !== at) return;
      fill(detail, h("section", { class: "panel stack" }, h("h2", { class: "mono" }, safe(key)), found ? [author(found), found.parts ? found.parts.map((one) => shown(one.value)) : shown(found.value), h("a", { href: address(key) }, "as it is now")] : empty("It was not there.")));
    } catch (error) { say(error); }
  }
  function say(error) { fill(said, wrong(error)); }

  async function differ() {
    if (at === null) { say({ message: "Move the slider, or choose a checkpoint, first." }); return; }
    const [before, title] = [at, name()];
    const box = h("section", { class: "panel stack" }, h("h2", {}, "Comparing …"));
    fill(detail, box);
    let number = 0;
    const page = async (start) => {
      const found = await call("diff", { before, start });
      number += found.keys.length;
      fill(box.firstChild, number ? `${number}${found.more ? " and more" : ""} ${number === 1 ? "key differs" : "keys differ"} from ${title}` : `Nothing has changed since ${title}`);
      box.append(...found.keys.map((one, at) => difference(one, number < 10 || at < 3)));
      if (!found.more) return;
      const more = h("div", {}, h("button", { onclick: async () => { more.remove(); try { await page(found.more); } catch (error) { say(error); } } }, "show more"));
      box.append(more);
    };
    try { await page(null); } catch (error) { fill(detail); say(error); }
  }
  function difference(one, open) {
    const [before, after] = [one.before, one.after].map((side) => (side ? words(side.value) ?? "" : ""));
    return h("details", { open }, h("summary", { class: "mono" }, safe(one.key), one.before ? (one.after ? "" : " – gone") : " – new"), h("div", { class: "side" }, h("div", {}, h("h3", {}, "then"), one.before ? marked(before, after, "del") : h("p", { class: "quiet" }, "not there")), h("div", {}, h("h3", {}, "now"), one.after ? marked(after, before, "ins") : h("p", { class: "quiet" }, "not there"))));
  }

  async function back(dry) {
    if (at === null) { say({ message: "Move the slider, or choose a checkpoint, first." }); return; }
    try { outcome(await call("restore", { point: at, dry_run: dry }), dry, () => back(false), `Go back to ${name()}`); } catch (error) { say(error); }
    if (!dry) await refresh();
  }
  async function undo(agent, dry) {
    const since = Date.now() - span;
    try { outcome(await call("undo", { agent, since, dry_run: dry }), dry, () => undo(agent, false), `Undo ${plain(agent)}`); } catch (error) { say(error); }
    if (!dry) await refresh();
  }
  async function fork(title) {
    fill(said, h("p", { class: "notice" }, "Copying …"));
    try {
      await call("fork", { name: title, at: named });
      page.spaces = await call("spaces");
      document.dispatchEvent(new Event("spaces"));
      fill(said, h("p", { class: "notice" }, "The space ", safe(title), ` holds what there ${named ? `was at ${plain(named)}` : "is now"}. Choose it above to work in it.`));
    } catch (error) { say(error); }
  }
  async function merge(title, dry) {
    try {
      const done = await call("merge_space", { name: title, dry_run: dry });
      const left = Object.entries(done.left).map((one) => one.join(": "));
      const counts = { restored: done.written.length, removed: done.removed.length, left: left.length };
      outcome({ restored: done.written, removed: done.removed, left, counts }, dry, () => merge(title, false), `Merge ${plain(title)} back`);
    } catch (error) { say(error); }
  }
  function outcome(done, dry, go, title) {
    const { restored, removed, left } = done.counts;
    const nothing = !restored && !removed;
    fill(said, h("section", { class: "panel stack" }, h("p", {}, `${dry ? "It would bring" : "It brought"} ${count(restored, "key")} back and ${dry ? "remove" : "removed"} ${removed.toLocaleString()}${left ? `, and ${dry ? "leave" : "left"} ${left.toLocaleString()} alone` : ""}.`),
      table(["brought back", "removed", "left alone"], [[list(done.restored), list(done.removed), list(done.left)]]), dry && !nothing ? h("div", { class: "row" }, h("button", { class: "main", onclick: go }, title)) : null));
  }
  function list(keys) { return keys.length ? [keys.slice(0, 200).map((one) => h("div", { class: "mono small" }, safe(one))), keys.length > 200 ? h("div", { class: "quiet small" }, "…") : null] : h("span", { class: "quiet" }, "–"); }

  const field = (label, hint) => h("input", { placeholder: hint, "aria-label": label, required: true });
  const [point, copy, agent] = [field("name of the checkpoint", "name"), field("name of the copy", "name of the copy"), field("agent whose work is taken back", "agent")];
  const form = (title, words, onsubmit, ...parts) => h("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); onsubmit(event); } }, h("h3", {}, title), h("p", { class: "small quiet" }, words), h("div", { class: "row" }, parts));
  points.append(page.readOnly ? "" : h("section", { class: "panel three" },
    form("Keep", "A checkpoint names what there is now.", async () => { try { await call("checkpoint", { name: point.value }); point.value = ""; await drawPoints(); } catch (error) { say(error); } }, point, h("button", {}, "keep what there is now")),
    form("Try out", "A copy is a space of its own, of now or of the checkpoint that is shown.", (event) => void (event.submitter.value === "merge" ? merge(copy.value, true) : fork(copy.value)), copy, h("button", { value: "fork" }, "try out in a copy"), h("button", { value: "merge" }, "what would merging it back do")),
    form("Undo", "What one agent wrote since the beginning of the slider, where nobody has built on it.", () => void undo(agent.value, true), agent, h("button", {}, "what would undoing its work do"))));
  async function drawPoints() {
    const found = await call("checkpoints");
    redraw(kept, found.map((one) => [one.name, one.dot]), () => [h("h2", {}, "Checkpoints"),
      found.length ? h("div", { class: "tall short" }, table(["name", "keys", "made", "note", ""], found.map((one) => [h("span", { class: "mono" }, safe(one.name)), one.keys === null ? "" : one.keys.toLocaleString(), author(one), safe(one.note), h("button", { onclick: () => { at = one.cut; named = one.name; label.textContent = plain(one.name); void refresh(); window.scrollTo(0, 0); } }, "look")]))) : empty("None yet: a checkpoint keeps what there is now, under a name.")]);
  }
  await Promise.all([refresh(), drawPoints()]);
  return { update: async () => { if (at === null) await tree.update(); await drawPoints(); } };
}
