// Asks the server, and hears from it.

export const page = { space: null, agent: "", readOnly: false, spaces: [] };

export class Refused extends Error {
  constructor(error) { super(error.message); this.code = error.code; }
}

const PLACE = "place"; // where the server knows this browser: a path that goes with its cookie

/** The address of what only this browser may have. */
export function own(path) { return `${localStorage.getItem(PLACE) ?? ""}${path}`; }

async function post(path, content) {
  let response;
  try {
    response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(content) });
  } catch {
    throw new Refused({ code: "gone", message: "the page's server does not answer: start crdtsync ui again" });
  }
  const text = await response.text();
  let told;
  try { told = JSON.parse(text); } catch { throw new Refused({ code: String(response.status), message: text.trim() }); }
  if (told.error) throw new Refused(told.error);
  return told.result;
}

/** What a function of the table of calls gives; throws `Refused` with the sentence that says why not. */
export function call(name, content = {}) {
  return post(own(`/api/${name}`), { space: page.space, ...content });
}

/** Trade the word of the address for a cookie and its path; the reason if that is refused. */
export async function login(word) {
  try { localStorage.setItem(PLACE, await post("/login", { word })); return null; } catch (error) { return error.message; }
}

/** Hear what changes, until the server no longer knows this browser. */
export function follow({ hello, news, gone }) {
  const stream = new EventSource(own(`/live${page.space === null ? "" : `?${new URLSearchParams({ space: page.space })}`}`));
  document.addEventListener("space", () => { stream.close(); follow({ hello, news, gone }); }, { once: true });
  stream.addEventListener("hello", (event) => {
    const told = JSON.parse(event.data);
    page.agent = told.agent;
    page.readOnly = told.read_only;
    page.space ??= told.space ?? "default";
    hello();
  });
  stream.onmessage = (event) => news(JSON.parse(event.data));
  stream.onerror = () => { if (stream.readyState === EventSource.CLOSED) gone(); };
}
