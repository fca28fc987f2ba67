// The state as of then; checkpoints, what differs, restoring, and taking back what one agent did.

import { call, page } from "/assets/ask.js";
import { author, count, empty, fill, h, latest, marked, plain, redraw, safe, shown, table, words, wrong } from "/assets/dom.js";
import { keyTree, place as address } from "/assets/state.js";

const HOUR_MS = 3600 * 1000;
const SPANS = { "an hour": HOUR_MS, "a day": 24 * HOUR_MS, "a week": 168 * HOUR_MS };
const WAIT_MS = 120; // a slider that is drawn along asks once
const NOWHERE = { message: "Move the slider, or choose a checkpoint, first." };

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
    h("section", { class: "panel stack" }, h("div", { class: "row spread" }, h("span", {}, "The state as of ", label), h("label", {}, "back to", choice, "ago")), slider, h("div", { class: "row" }, h("button", { onclick: differ }, "what is different now"), page.readOnly ? null : h("button", { onclick: back }, "what would going back do"))),
    kept, said, h("div", { class: "columns" }, h("section", { class: "panel", "aria-label": "Keys" }, listed), detail), points));
  let timer = null;
  const [listing, reading, saying] = [latest(), latest(), latest()];
  const tree = keyTree(listed, { at: () => at, open: (key) => Promise.all([tree.choose(key), read(key)]).catch(say) });

  function move(value) {
    look(value >= 1000 ? null : Math.round(Date.now() - (span * (1000 - value)) / 1000));
  }
  function look(point, checkpoint = null) {
    [at, named] = [point, checkpoint];
    label.textContent = name();
    slider.setAttribute("aria-valuetext", name());
    for (const [part, begin] of [[said, saying], [detail, reading]]) { begin(); fill(part); } // they were about another time
    clearTimeout(timer);
    timer = setTimeout(() => void refresh(), WAIT_MS);
  }
  function name() { return at === null ? "now" : typeof at === "number" ? new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : plain(named); }

  async function refresh() {
    const isLast = listing();
    listed.drawn = null;
    try { await tree.update(); } catch (error) {
      if (!isLast()) return;
      say(error);
      fill(listed, empty("There is nothing to show of that time."));
    }
  }
  async function read(key) {
    const isLast = reading();
    try {
      const found = await call("entry", { key, at });
      if (!isLast()) return;
      fill(detail, h("section", { class: "panel stack" }, h("h2", { class: "mono" }, safe(key)), found ? [author(found), found.parts ? found.parts.map((one) => shown(one.value)) : shown(found.value), h("a", { href: address(key) }, "as it is now")] : empty("It was not there.")));
    } catch (error) { if (isLast()) say(error); }
  }
  function say(error) { saying(); fill(said, wrong(error)); }

  async function differ() {
    if (at === null) { say(NOWHERE); return; }
    const isLast = reading();
    const [before, title] = [at, name()];
    const box = h("section", { class: "panel stack" }, h("h2", {}, "Comparing …"));
    fill(detail, box);
    let number = 0;
    const more = async (start) => {
      const found = await call("diff", { before, start });
      number += found.keys.length;
      fill(box.firstChild, number ? `${number}${found.more ? " and more" : ""} ${number === 1 ? "key differs" : "keys differ"} from ${title}` : `Nothing has changed since ${title}`);
      box.append(...found.keys.map((one, at) => difference(one, number < 10 || at < 3)));
      if (!found.more) return;
      const next = h("div", {}, h("button", { onclick: async () => { next.remove(); try { await more(found.more); } catch (error) { if (isLast()) say(error); } } }, "show more"));
      box.append(next);
    };
    try { await more(null); } catch (error) { if (isLast()) { fill(detail); say(error); } }
  }
  function difference(one, open) {
    const [before, after] = [one.before, one.after].map((side) => (side ? side.value?.$cut ? `${side.value.text} …` : words(side.value) ?? "" : ""));
    return h("details", { open }, h("summary", { class: "mono" }, safe(one.key), one.before ? (one.after ? "" : " – gone") : " – new"), h("div", { class: "side" }, h("div", {}, h("h3", {}, "then"), one.before ? marked(before, after, "del") : h("p", { class: "quiet" }, "not there")), h("div", {}, h("h3", {}, "now"), one.after ? marked(after, before, "ins") : h("p", { class: "quiet" }, "not there"))));
  }

  // First as a dry run; the button below its outcome does the same for real, wherever the slider is by then.
  async function attempt(title, name, content, told = (done) => done, dry = true) {
    const isLast = saying();
    try {
      const done = told(await call(name, { ...content, dry_run: dry }));
      if (!dry || isLast()) outcome(done, dry, () => attempt(title, name, content, told, false), title);
    } catch (error) { if (!dry || isLast()) say(error); }
    if (!dry) await refresh();
  }
  function back() {
    if (at === null) { say(NOWHERE); return; }
    void attempt(`Go back to ${name()}`, "restore", { point: at });
  }
  function merge(title) {
    void attempt(`Merge ${plain(title)} back`, "merge_space", { name: title }, (done) => {
      const left = Object.entries(done.left).map((one) => one.join(": "));
      return { restored: done.written, removed: done.removed, changed: [], left, counts: { restored: done.written.length, removed: done.removed.length, changed: 0, left: left.length } };
    });
  }
  async function fork(title) {
    const isLast = saying();
    const from = named === null ? "is now" : `was at ${plain(named)}`;
    fill(said, h("p", { class: "notice" }, "Copying …"));
    try {
      await call("fork", { name: title, at: named });
      page.spaces = await call("spaces");
      document.dispatchEvent(new Event("spaces"));
      if (isLast()) fill(said, h("p", { class: "notice" }, "The space ", safe(title), ` holds what there ${from}. Choose it above to work in it.`));
    } catch (error) { say(error); }
  }
  function outcome(done, dry, go, title) {
    const { restored, removed, changed, left } = done.counts;
    const nothing = !restored && !removed && !changed;
    fill(said, h("section", { class: "panel stack" }, h("p", {}, `${dry ? "It would bring" : "It brought"} ${count(restored, "key")} back and ${dry ? "remove" : "removed"} ${removed.toLocaleString()}${changed ? `, and take what came later out of ${changed.toLocaleString()}` : ""}${left ? `, and ${dry ? "leave" : "left"} ${left.toLocaleString()} alone` : ""}.`),
      dry && !nothing ? h("div", { class: "row" }, h("button", { class: "main", onclick: go }, title)) : null, h("div", { class: "tall short" }, table(["brought back", "removed", "changed", "left alone"], [[list(done.restored), list(done.removed), list(done.changed), list(done.left)]]))));
  }
  function list(keys) { return keys.length ? [keys.slice(0, 200).map((one) => h("div", { class: "mono small" }, safe(one))), keys.length > 200 ? h("div", { class: "quiet small" }, "…") : null] : h("span", { class: "quiet" }, "–"); }

  const field = (label, hint) => h("input", { placeholder: hint, "aria-label": label, required: true });
  const [point, copy, agent] = [field("name of the checkpoint", "name"), field("name of the copy", "name of the copy"), field("agent whose work is taken back", "agent")];
  const form = (title, words, onsubmit, ...parts) => h("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); onsubmit(event); } }, h("h3", {}, title), h("p", { class: "small quiet" }, words), h("div", { class: "row" }, parts));
  points.append(page.readOnly ? "" : h("section", { class: "panel three" },
    form("Keep", "A checkpoint names what there is now.", async () => { try { await call("checkpoint", { name: point.value }); point.value = ""; await drawPoints(); } catch (error) { say(error); } }, point, h("button", {}, "keep what there is now")),
    form("Try out", "A copy is a space of its own, of now or of the checkpoint that is shown.", (event) => void (event.submitter.value === "merge" ? merge(copy.value) : fork(copy.value)), copy, h("button", { value: "fork" }, "try out in a copy"), h("button", { value: "merge" }, "what would merging it back do")),
    form("Undo", "What one agent wrote since the beginning of the slider, where nobody has built on it.", () => void attempt(`Undo ${plain(agent.value)}`, "undo", { agent: agent.value, since: Date.now() - span }), agent, h("button", {}, "what would undoing its work do"))));
  async function drawPoints() {
    const found = await call("checkpoints");
    redraw(kept, found.map((one) => [one.name, one.dot]), () => [h("h2", {}, "Checkpoints"),
      found.length ? h("div", { class: "tall short" }, table(["name", "keys", "made", "note", ""], found.map((one) => [h("span", { class: "mono" }, safe(one.name)), one.keys === null ? "" : one.keys.toLocaleString(), author(one), safe(one.note), h("button", { onclick: () => { slider.value = Math.min(999, 1000 - (1000 * (Date.now() - new Date(one.time))) / span); look(one.cut, one.name); window.scrollTo(0, 0); } }, "look")]))) : empty("None yet: a checkpoint keeps what there is now, under a name.")]);
  }
  await Promise.all([refresh(), drawPoints()]);
  return { update: async () => { if (at === null) await tree.update(); await drawPoints(); } };
}
