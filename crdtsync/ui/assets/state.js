// Keys as a tree; a key's values, its history, its conflicts; editing as one who has seen what is shown.

import { call, page } from "/assets/ask.js";
import { ago, author, count, empty, fill, h, marked, safe, shown, size, table, tag, words } from "/assets/dom.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"]; // as the server has them

/** A tree of keys; `at` is a function that gives the point to read, and `open` shows a key. */
export function keyTree(place, { at = () => null, open }) {
  let folder = "";
  let chosen = null;
  let starts = [null];
  let drawn = "";

  async function update() {
    const pages = [];
    for (const start of starts) pages.push(await call("tree", { prefix: folder, start, at: at() }));
    const now = JSON.stringify([folder, chosen, pages]);
    if (now === drawn) return;
    drawn = now;
    const keys = pages.flatMap((one) => one.keys);
    const folders = [...new Set(pages.flatMap((one) => one.folders))];
    const more = pages.at(-1).more;
    const up = folder ? folder.slice(0, folder.lastIndexOf("/", folder.length - 2) + 1) : null;
    fill(place, 
      h("div", { class: "row" }, up === null ? h("span", { class: "quiet small" }, "all keys") : h("button", { class: "plain", onclick: () => enter(up) }, "← ", safe(folder))),
      keys.length + folders.length ? h("ul", { class: "list tall", "aria-label": "keys" },
        folders.map((one) => h("li", {}, h("button", { onclick: () => enter(one) }, h("span", { class: "name" }, safe(one.slice(folder.length))), h("span", { class: "quiet" }, "›")))),
        keys.map((one) => h("li", {}, h("button", { "aria-current": one.key === chosen ? "true" : null, onclick: () => open(one.key) },
          h("span", { class: "name" }, safe(one.key.slice(folder.length))), one.siblings ? tag(count(one.siblings + 1, "value"), "warn") : null, one.kind === "register" ? null : h("span", { class: "quiet small" }, one.kind)))))
        : empty(folder ? "Nothing is here." : ["Nothing is stored yet. Try ", h("code", {}, "crdtsync set plan/goal '\"ship it\"'"), "."]),
      more ? h("button", { onclick: () => { starts = [...starts, more]; void update(); } }, "more") : null);
  }
  async function enter(one) { folder = one; starts = [null]; await update(); place.querySelector("button")?.focus(); }
  /** Mark a key, and show the folder that it is in. */
  async function choose(key) {
    chosen = key;
    const within = key ? key.slice(0, key.lastIndexOf("/") + 1) : folder;
    if (within !== folder) { folder = within; starts = [null]; }
    await update();
  }
  return { update, choose };
}

export async function state(place, rest) {
  const listed = h("div", { class: "stack", "data-hold": true });
  const detail = h("div", { class: "stack" });
  const query = h("input", { type: "search", placeholder: "search words", "aria-label": "search words" });
  const tools = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); void search(); } }, h("span", { class: "grow" }, query), h("button", {}, "search"), page.readOnly ? null : h("button", { type: "button", onclick: () => edit("", null) }, "new key"));
  place.append(h("h1", {}, "State"), h("div", { class: "columns" }, h("section", { class: "panel stack", "aria-label": "Keys" }, tools, listed), detail));
  const tree = keyTree(listed, { open: (key) => { location.hash = `#/state/${encodeURIComponent(key)}`; } });
  let key = null;
  let seen = null; // what is drawn
  let editing = false;

  async function go(wanted) {
    key = wanted || null;
    editing = false;
    seen = null;
    await tree.choose(key);
    await draw();
  }

  async function draw() {
    if (editing) return;
    if (!key) { await drawConflicts(); return; }
    const [entry, past] = await Promise.all([call("entry", { key }), call("history", { key })]);
    const now = JSON.stringify([key, entry, past]);
    if (now === seen) return;
    seen = now;
    fill(detail, entry ? value(entry) : h("section", { class: "panel" }, h("h2", {}, safe(key)), empty("This key has no value now.")), history(past));
  }

  async function drawConflicts() {
    const found = await call("conflicts");
    const now = JSON.stringify(found);
    if (now === seen) return;
    seen = now;
    fill(detail, h("section", { class: "panel" }, h("h2", {}, "What is disagreed about"),
      found.length ? h("ul", { class: "list" }, found.map((one) => h("li", {}, h("a", { href: `#/state/${encodeURIComponent(one.key)}` }, h("span", { class: "name" }, safe(one.key)), tag(count(one.siblings.length + 1, "value"), "warn")))))
        : empty("No key has more than one value. Choose a key to see it.")));
  }

  function value(entry) {
    const all = [entry, ...entry.siblings];
    const editable = entry.kind === "register" && !page.readOnly;
    return h("section", { class: "panel stack", "data-hold": true, "aria-label": "Value" },
      h("div", { class: "row spread" }, h("h2", { class: "mono" }, safe(entry.key)), h("span", { class: "row" }, tag(entry.kind), entry.ttl ? tag(`for ${entry.ttl} s`) : null, entry.policy ? h("span", { class: "quiet small" }, entry.policy) : null)),
      all.length > 1 ? h("p", { class: "notice" }, `${all.length} values were written at the same time. Readers see the first one until somebody says which stands.`) : null,
      h("div", { class: "side" }, all.map((one, number) => h("div", { class: `value ${number ? "" : "first"}` }, author(one), number && one.kind === "register" ? marked(words(one.value), words(entry.value), "ins") : body(one),
        one.confidence === null ? null : h("span", { class: "small quiet" }, `confidence ${one.confidence}`),
        all.length > 1 && !page.readOnly && !one.field ? h("button", { onclick: () => act("resolve", { key, version: entry.version, take: one.dot }) }, "keep this one") : null))),
      editable ? h("div", { class: "row" }, h("button", { onclick: () => edit(key, entry) }, all.length > 1 ? "merge by hand" : "edit"), h("button", { onclick: () => { if (confirm(`Delete ${key}?`)) void act("delete", { key, version: entry.version }); } }, "delete"), where()) : h("div", { class: "row" }, where()));
  }

  function where() {
    return h("details", { class: "grow", ontoggle: async (event) => {
      if (!event.target.open) return;
      const told = await call("explain", { key });
      fill(event.target, h("summary", {}, "where it is"), h("p", {}, safe(told.summary)), ...told.values.map((one) => h("p", { class: "small" }, safe(one.agent), ": on ", safe([told.node, ...one.held_by].join(", ")), one.not_held_by.length ? [", not yet on ", safe(one.not_held_by.join(", "))] : null)));
    } }, h("summary", {}, "where it is"));
  }

  function body(entry) {
    if (entry.kind === "blob") return blob(entry);
    if (entry.parts) return entry.parts.length ? h("ol", { class: "stack", start: entry.parts[0].index + 1 }, entry.parts.map((one) => h("li", {}, author(one), shown(one.value)))) : empty("The log is empty.");
    return shown(entry.value);
  }

  function blob(entry) {
    const { size: bytes, sha256, media_type: type } = entry.value;
    const address = `/blob?${new URLSearchParams({ key: entry.key, space: page.space })}`;
    return [h("dl", {}, [["size", size(bytes)], ["type", safe(type)], ["SHA-256", h("span", { class: "mono" }, sha256)]].map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      PICTURES.includes(type) && bytes < 20e6 ? h("img", { src: address, alt: `the picture in ${entry.key}` }) : null, h("a", { href: address, download: entry.key.split("/").at(-1) }, "save it")];
  }

  function history(past) {
    const rows = past.writes.map((one) => [ago(one.time), [safe(one.agent ?? "?"), " on ", safe(one.node ?? "?")], one.op, h("details", {}, h("summary", {}, safe(words(one.value)?.slice(0, 60) ?? "")), shown(one.value)), fate(one)]);
    return h("section", { class: "panel", "data-hold": true }, h("h2", {}, "History"), rows.length ? table(["when", "who", "what", "value", "what became of it"], rows) : empty("Nothing is known of it."),
      past.is_complete ? null : h("p", { class: "quiet small" }, "Older writes are no longer kept here."));
  }

  function fate(one) {
    const kind = { live: "good", lost: "bad" }[one.fate] ?? "";
    return [tag(one.fate, kind), one.blind?.length ? h("span", { class: "small quiet" }, " written unread") : null];
  }

  async function act(name, content) {
    try { await call(name, content); editing = false; seen = null; await draw(); await tree.update(); return null; } catch (error) {
      seen = null;
      editing = false;
      await draw();
      detail.prepend(h("p", { class: "notice bad", role: "alert" }, error.code === "version_mismatch" ? "Somebody was faster. This is what there is now; nothing was written." : safe(error.message)));
      return error;
    }
  }

  function edit(name, entry) {
    editing = true;
    const field = h("input", { value: name, "aria-label": "key", readonly: Boolean(entry), class: "grow mono" });
    const box = h("textarea", { "aria-label": "value, as JSON", spellcheck: "false" });
    box.value = entry ? JSON.stringify(entry.value, null, 2) : "";
    const said = h("p", { role: "alert" });
    const save = async (event) => {
      event.preventDefault();
      let parsed;
      try { parsed = JSON.parse(box.value); } catch (error) { fill(said, h("span", { class: "notice bad" }, `This is no JSON: ${error.message}`)); return; }
      const written = box.value;
      key = field.value;
      const error = entry?.siblings.length ? await act("resolve", { key, version: entry.version, value: parsed }) : await act("write", { key, value: parsed, version: entry?.version ?? null });
      if (error) detail.append(h("section", { class: "panel" }, h("h2", {}, "What you wanted to write"), h("pre", {}, safe(written))));
      else location.hash = `#/state/${encodeURIComponent(key)}`;
    };
    fill(detail, h("form", { class: "panel stack", onsubmit: save, "data-hold": true }, h("h2", {}, entry ? "Edit" : "New key"), entry?.siblings.length ? h("div", { class: "side" }, [entry, ...entry.siblings].map((one) => h("div", { class: "value" }, author(one), body(one)))) : null, field, box, said, h("div", { class: "row" }, h("button", { class: "main" }, "save"), h("button", { type: "button", onclick: () => { editing = false; seen = null; void draw(); } }, "cancel"))));
    (entry ? box : field).focus();
  }

  async function search() {
    if (!query.value.trim()) { seen = null; await go(""); return; }
    editing = false;
    seen = "search";
    key = null;
    try {
      const found = await call("search", { query: query.value });
      fill(detail, h("section", { class: "panel" }, h("h2", {}, count(found.length, "entry", "entries")), found.length ? h("ul", { class: "list" }, found.map((one) => h("li", {}, h("a", { href: `#/state/${encodeURIComponent(one.key)}` }, h("span", { class: "name" }, h("span", { class: "mono" }, safe(one.key)), h("br"), h("span", { class: "small quiet" }, safe(one.snippet ?? one.text ?? ""))))))) : empty("Nothing speaks of that.")));
    } catch (error) { fill(detail, h("p", { class: "notice bad" }, safe(error.message))); }
  }

  await go(rest);
  return { go, update: async () => { await tree.update(); if (seen !== "search") await draw(); } };
}
