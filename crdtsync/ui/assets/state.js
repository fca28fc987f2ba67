// Keys as a tree; a key's values, its history, its conflicts; editing as one who has seen what is shown.

import { call, own, page } from "/assets/ask.js";
import { ago, author, count, empty, fill, h, latest, marked, plain, redraw, safe, shown, size, table, tag, words, wrong } from "/assets/dom.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"]; // as the server has them
const TEXTS = /^(text\/|application\/(json|xml|toml|yaml|javascript))/;
const PAGES_MAX = 10; // of keys that are shown at once: the first ones go
const MORE = 500;

/** The address of a key's own screen. */
export function place(key) { return `#/state/${encodeURIComponent(key)}`; }

/** A tree of keys; `at` is a function that gives the point to read, and `open` shows a key. */
export function keyTree(part, { at = () => null, open }) {
  let folder = "";
  let chosen = null;
  let starts = [null];
  const begin = latest();

  async function update() {
    const pages = [];
    const isLast = begin();
    const point = at();
    for (const start of starts) pages.push(await call("tree", { prefix: folder, start, at: point }));
    if (!isLast()) return;
    redraw(part, [folder, chosen, point, pages.map((one) => [one.folders, one.records, one.more, one.keys.map((key) => [key.key, key.kind, key.siblings])])], () => draw(pages));
  }
  function draw(pages) {
    const keys = pages.flatMap((one) => one.keys);
    const [folders, records] = ["folders", "records"].map((name) => [...new Set(pages.flatMap((one) => one[name]))]);
    const more = pages.at(-1).more;
    const up = folder ? folder.slice(0, folder.lastIndexOf("/", folder.length - 2) + 1) : null;
    return [
      h("div", { class: "row" }, up === null ? h("span", { class: "quiet small" }, "all keys") : h("button", { class: "plain", onclick: () => enter(up), "aria-label": `up from ${plain(folder)}` }, "← ", safe(folder))),
      keys.length + folders.length + records.length ? h("ul", { class: "list tall", "aria-label": "keys", tabindex: -1 },
        folders.map(within),
        keys.map((one) => h("li", {}, h("button", { "aria-current": one.key === chosen ? "true" : null, onclick: () => open(one.key) },
          h("span", { class: "name" }, safe(one.key.slice(folder.length))), one.siblings ? tag(count(one.siblings + 1, "value"), "warn") : null, one.kind === "register" ? null : h("span", { class: "quiet small" }, one.kind)))),
        records.length ? h("li", {}, h("details", { "data-name": "records" }, h("summary", {}, "kept by crdtsync"), h("ul", { class: "list" }, records.map(within)))) : null)
        : empty(at() !== null ? "Nothing was here then." : folder ? "Nothing is here." : ["Nothing is stored yet. Try ", h("code", {}, `crdtsync${page.spaces.length > 1 ? ` --space ${page.space}` : ""} set plan/goal '"ship it"'`), "."]),
      starts[0] === null ? null : h("button", { onclick: () => turn([null]) }, "from the first key"),
      more ? h("button", { onclick: () => turn([...starts, more].slice(-PAGES_MAX)) }, "more keys") : null];
  }
  function within(one) {
    return h("li", {}, h("button", { onclick: () => enter(one) }, h("span", { class: "name" }, safe(one.slice(folder.length))), h("span", { class: "quiet", "aria-hidden": "true" }, "›")));
  }
  async function turn(to) { starts = to; part.drawn = null; await update(); }
  async function enter(one) { folder = one; await turn([null]); part.querySelector("button")?.focus(); }
  /** Mark a key, and show the folder that it is in. */
  async function choose(key) {
    chosen = key;
    const within = key ? key.slice(0, key.lastIndexOf("/") + 1) : folder;
    if (within !== folder) { folder = within; starts = [null]; }
    part.drawn = null;
    await update();
  }
  return { update, choose };
}

export async function state(box, rest) {
  const listed = h("div", { class: "stack" });
  const named = h("div", {});
  const said = h("div", {});
  const above = h("div", {});
  const below = h("div", {});
  const query = h("input", { type: "search", placeholder: "search words", "aria-label": "search words" });
  const tools = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); void search(); } }, h("span", { class: "grow" }, query), h("button", {}, "search"), page.readOnly ? null : h("button", { type: "button", onclick: () => edit("", null) }, "new key"));
  box.append(h("h1", {}, "State"), h("div", { class: "columns" }, h("section", { class: "panel stack", "aria-label": "Keys" }, tools, listed, named), h("div", { class: "stack" }, said, above, below)));
  const tree = keyTree(listed, { open: (key) => { if (location.hash === place(key)) void go(key); else location.hash = place(key); } });
  let key = null;
  let mode = "look"; // or edit, search
  let last = 50; // of the history
  let parts = 200; // of a log
  const begin = latest(); // to read
  const turn = latest(); // to show something else
  let isBusy = false; // with a write: a second click would be told that somebody was faster

  async function go(wanted) {
    key = wanted || null;
    mode = "look";
    turn();
    [last, parts] = [50, 200];
    fill(said);
    anew();
    await Promise.all([tree.choose(key), draw(), views()]);
  }
  function anew() { above.drawn = below.drawn = null; }

  async function draw() {
    if (mode !== "look") return;
    const isLast = begin();
    if (!key) {
      const found = await call("conflicts");
      if (!isLast() || mode !== "look") return; // somebody went on meanwhile
      redraw(above, found.map((one) => [one.key, one.version]), () => conflicts(found));
      redraw(below, "", () => null);
      return;
    }
    const [entry, past] = await Promise.all([call("entry", { key, last: parts }), call("history", { key, last })]);
    if (!isLast() || mode !== "look") return;
    redraw(above, [key, entry], () => (entry ? value(entry) : h("section", { class: "panel stack" }, h("h2", { class: "mono" }, safe(key)), empty("This key has no value now."), explain())));
    redraw(below, [key, past], () => history(past));
  }
  async function views() {
    const found = await call("views");
    redraw(named, found, () => (found.length ? h("details", { "data-name": "views" }, h("summary", {}, count(found.length, "view")), h("ul", { class: "list" }, found.map((one) => h("li", {}, h("a", { href: `#/context/${encodeURIComponent(one)}` }, safe(one)))))) : null));
  }
  function conflicts(found) {
    return h("section", { class: "panel" }, h("h2", {}, "What is disagreed about"),
      found.length ? h("ul", { class: "list" }, found.map((one) => h("li", {}, h("a", { href: place(one.key) }, h("span", { class: "name" }, safe(one.key)), tag(count(one.siblings.length + 1, "value"), "warn")))))
        : empty("No key has more than one value. Choose a key to see it."));
  }

  function value(entry) {
    const all = [entry, ...entry.siblings];
    const mayEdit = entry.kind === "register" && !page.readOnly;
    const isWhole = !/"\$(cut|bytes|float)":/.test(JSON.stringify(all.map((one) => one.value)));
    return h("section", { class: "panel stack", "aria-label": "Value" },
      h("div", { class: "row spread" }, h("h2", { class: "mono" }, safe(entry.key)), h("span", { class: "row" }, tag(entry.document ? "document" : entry.kind), entry.ttl ? tag(`for ${entry.ttl} s`) : null, entry.policy && entry.policy !== "lww" ? tag(entry.policy) : null)),
      all.length > 1 ? h("p", { class: "notice" }, `${all.length} values were written at the same time. Readers see the first one until somebody says which stands.`) : null,
      h("div", { class: "side" }, all.map((one, number) => h("div", { class: `value ${number || all.length === 1 ? "" : "first"}` }, one.field ? h("span", { class: "mono" }, safe(one.field)) : null, author(one), body(one, against(all, number), number),
        one.confidence === null ? null : h("span", { class: "small quiet" }, `confidence ${one.confidence}`),
        one.meta ? h("details", { "data-name": `meta${number}` }, h("summary", {}, "what its author said of it"), shown(one.meta)) : null,
        all.length > 1 && !page.readOnly ? h("div", {}, h("button", { onclick: () => act("resolve", { key, version: entry.version, take: one.dot }) }, "keep this one")) : null))),
      h("div", { class: "row" }, mayEdit && isWhole ? h("button", { onclick: () => edit(key, entry) }, all.length > 1 ? "merge by hand" : "edit") : null,
        mayEdit && !isWhole ? h("span", { class: "quiet small" }, "too long, or not JSON: to be changed by a program") : null,
        all.length > 1 && entry.kind === "text" && !page.readOnly ? h("button", { onclick: () => act("resolve", { key, version: entry.version, merge: true }) }, "join the texts") : null,
        page.readOnly ? null : h("button", { onclick: () => { if (confirm(`Delete ${plain(key)}?`)) void act("delete", { key, version: entry.version }); } }, "delete")),
      explain());
  }

  function explain() {
    return h("details", { ontoggle: async (event) => {
      if (!event.target.open || event.target.asked === key) return;
      event.target.asked = key;
      try {
        const told = await call("explain", { key });
        fill(event.target, h("summary", {}, "explain"), h("p", {}, safe(told.summary)),
          told.values.map((one) => h("p", { class: "small" }, safe(one.agent), ": on ", safe([one.node, ...one.held_by].join(", ")), one.over ? [", came over ", safe(one.over)] : null, one.not_held_by.length ? [", not yet on ", safe(one.not_held_by.join(", "))] : null)),
          told.removed ? h("p", { class: "small" }, "gone: ", author(told.removed.by ?? told.removed.written ?? {})) : null,
          h("ul", { class: "small" }, told.reasons.map((one) => h("li", {}, h("strong", {}, safe(one.code)), " ", safe(one.message)))));
      } catch (error) { event.target.append(wrong(error)); }
    } }, h("summary", {}, "explain"));
  }

  // What a value is compared with: the first one, or its field of the same name; a map with fields of its own, with none.
  function against(all, number) {
    if (!number) return all[1] && !all[1].field ? all[1] : null;
    return all[number].field ? { value: all[0].value[all[number].field] } : all[0];
  }
  function body(entry, other, number) {
    if (entry.kind === "blob") return blob(entry);
    if (entry.parts) return log(entry);
    if (entry.document) return shown(entry.document);
    if (other && entry.value && !entry.value.$cut) return marked(words(entry.value), words(other.value), number ? "ins" : "del");
    if (entry.kind === "counter") return h("p", { class: "number" }, words(entry.value));
    if (entry.kind === "set") return entry.value.length ? h("ul", { class: "chips" }, entry.value.map((one) => h("li", {}, safe(words(one))))) : empty("The set is empty.");
    if (entry.kind === "map") return table(["field", "value"], Object.entries(entry.value).map(([name, one]) => [h("span", { class: "mono" }, safe(name)), one && typeof one === "object" ? shown(one) : safe(words(one))]));
    return shown(entry.value);
  }

  function log(entry) {
    if (!entry.parts.length) return empty("The log is empty.");
    const first = entry.parts[0].index;
    return [first && parts < 2000 ? h("button", { onclick: () => { parts += MORE; above.drawn = null; void draw(); } }, `${first.toLocaleString()} older`) : null,
      h("ol", { class: "log", start: first + 1 }, entry.parts.map((one) => h("li", {}, author(one), shown(one.value))))];
  }

  function blob(entry) {
    const { size: bytes, sha256, media_type: type } = entry.value;
    const address = own(`/blob?${new URLSearchParams({ key: entry.key, space: page.space })}`);
    const preview = TEXTS.test(type ?? "") ? h("button", { onclick: async () => {
      const response = await fetch(address);
      const reader = response.body.getReader();
      const { value: first } = await reader.read();
      void reader.cancel();
      preview.replaceWith(h("pre", {}, safe(new TextDecoder().decode((first ?? new Uint8Array()).slice(0, 65536)))), bytes > 65536 ? h("p", { class: "quiet small" }, "the first part") : "");
    } }, "look into it") : null;
    return [h("dl", {}, [["size", size(bytes)], ["type", safe(type ?? "not told")], ["SHA-256", h("span", { class: "mono" }, sha256)]].map(([name, one]) => [h("dt", {}, name), h("dd", {}, one)])),
      PICTURES.includes(type) && bytes < 20e6 ? h("img", { src: address, alt: `the picture in ${plain(entry.key)}` }) : preview, h("div", {}, h("a", { href: address, download: entry.key.split("/").at(-1) }, "save it"))];
  }

  function history(past) {
    const numbers = new Map(past.writes.map((one, at) => [one.dot, past.writes.length - at]));
    const named = (dots) => { const known = dots.map((dot) => numbers.get(dot)).filter(Boolean); return [...known.map((one) => `#${one}`), ...(known.length < dots.length ? [count(dots.length - known.length, "older one")] : [])].join(", "); };
    const rows = past.writes.map((one) => [`#${numbers.get(one.dot)}`, ago(one.time), [safe(one.agent ?? "?"), " ", h("span", { class: "whole" }, "on ", safe(one.node ?? "?"))], [safe(one.op), one.field ? [" ", h("span", { class: "mono" }, safe(one.field))] : null, one.edits > 1 ? ` (${count(one.edits, "edit")})` : null],
      one.value === null ? "" : h("details", { "data-name": one.dot }, h("summary", {}, safe(words(one.value).slice(0, 60))), shown(one.value)),
      [one.seen?.length ? named(one.seen) : one.seen ? "nothing" : one.seen_all ? "many" : "not known", one.blind?.length ? [" ", tag(`wrote over ${named(one.blind)} unread`, "warn")] : null],
      [one.fate ? tag(one.fate, { live: "good", lost: "bad" }[one.fate] ?? "") : "?", one.removed_by ? h("span", { class: "small quiet" }, " by ", safe(one.removed_by.agent)) : null]]);
    return h("section", { class: "panel stack" }, h("h2", {}, "History"), rows.length ? table(["", "when", "who and where", "what", "value", "having read", "what became of it"], rows) : empty("Nothing is known of it."),
      past.has_more && last < MORE ? h("div", {}, h("button", { onclick: () => { last = MORE; below.drawn = null; void draw(); } }, "show more")) : null,
      past.is_complete ? null : h("p", { class: "quiet small" }, "Older writes are no longer kept here."));
  }

  async function act(name, content) {
    if (isBusy) return null;
    const isLast = turn();
    let error = null;
    isBusy = true;
    try { await call(name, content); } catch (found) { error = found; }
    isBusy = false;
    if (isLast()) mode = "look";
    else if (!error) return null;
    fill(said, error ? h("p", { class: "notice bad", role: "alert" }, isLast() ? null : [h("span", { class: "mono" }, safe(content.key)), ": "], error.code === "version_mismatch" ? "Somebody was faster. This is what there is now; nothing was written." : safe(error.message)) : null);
    if (mode === "look") anew();
    listed.drawn = null;
    await Promise.all([draw(), tree.update()]).catch(() => {});
    return error;
  }

  function edit(name, entry) {
    mode = "edit";
    turn();
    fill(said);
    const field = h("input", { value: name, "aria-label": "key", placeholder: "plan/goal", required: true, readonly: Boolean(entry), class: "grow mono" });
    const text = h("textarea", { "aria-label": "value, as JSON", spellcheck: "false", placeholder: "\"words in quotes\", 42, or {\"a\": 1}" });
    text.value = entry ? JSON.stringify(entry.value, null, 2) : "";
    const reply = h("p", { role: "alert" });
    const save = async (event) => {
      event.preventDefault();
      let parsed;
      try { parsed = JSON.parse(text.value); } catch (error) { fill(reply, h("span", { class: "notice bad" }, `This is no JSON: ${error.message}`)); return; }
      if (isBusy) return;
      const written = text.value;
      key = field.value;
      const error = entry?.siblings.length ? await act("resolve", { key, version: entry.version, value: parsed }) : await act("write", { key, value: parsed, version: entry?.version ?? null });
      if (error) said.append(h("section", { class: "panel" }, h("h2", {}, "What you wanted to write"), h("pre", {}, safe(written))));
      else if (key === field.value && location.hash !== place(key)) location.hash = place(key);
    };
    fill(above, h("form", { class: "panel stack", onsubmit: save, onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit(); } }, h("h2", {}, entry ? "Edit" : "New key"), entry?.siblings.length ? h("div", { class: "side" }, [entry, ...entry.siblings].map((one) => h("div", { class: "value" }, author(one), body(one)))) : null, field, text, reply,
      h("div", { class: "row" }, h("button", { class: "main" }, "save"), h("button", { type: "button", onclick: () => { mode = "look"; anew(); void draw(); } }, "cancel"))));
    if (!entry) fill(below);
    (entry ? text : field).focus();
  }

  async function search() {
    if (!query.value.trim()) { await go(""); return; }
    mode = "search";
    const isLast = turn();
    fill(said);
    fill(below);
    try {
      const found = await call("search", { query: query.value });
      if (!isLast()) return;
      fill(above, h("section", { class: "panel" }, h("h2", {}, count(found.length, "entry", "entries")), found.length ? h("ul", { class: "list" }, found.map((one) => h("li", {}, h("a", { href: place(one.key), onclick: () => { if (location.hash === place(one.key)) void go(one.key); } }, h("span", { class: "name" }, h("span", { class: "mono" }, safe(one.key)), h("br"), h("span", { class: "small quiet" }, safe(one.snippet ?? ""))))))) : empty("Nothing speaks of that.")));
    } catch (error) { if (isLast()) fill(above, wrong(error)); }
  }

  await go(rest);
  return { go, update: async () => { await tree.update(); await draw(); } };
}
