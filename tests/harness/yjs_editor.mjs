// An unmodified Yjs editor without a screen: the provider of y-websocket. Told what to do by lines of JSON.
import { createInterface } from "node:readline";
import WebSocket from "ws";
import { WebsocketProvider } from "y-websocket";
import * as Y from "yjs";

const [url, key, token, agent] = process.argv.slice(2);
const doc = new Y.Doc();
const text = doc.getText("text");
const map = doc.getMap("doc");
const provider = new WebsocketProvider(url, key, doc, {
  params: { token, agent }, WebSocketPolyfill: WebSocket, disableBc: true, maxBackoffTime: 200,
});
let closed = null;
provider.on("closed", ({ code }) => { closed = code; });
provider.awareness.setLocalStateField("user", { name: agent });
const denied = [];
console.warn = (line) => denied.push(line);

const commands = {
  synced: () => provider.synced || new Promise((done) => provider.on("sync", () => done(true))),
  read: () => text.toString(),
  insert: (position, added) => text.insert(position, added),
  delete: (position, length) => text.delete(position, length),
  map: () => map.toJSON(),
  set: (name, value) => map.set(name, value),
  push: (name, value) => map.get(name).push([new Y.Map(Object.entries(value))]),
  names: () => [...provider.awareness.getStates().values()].map((state) => state.user?.name).sort(),
  disconnect: () => provider.disconnect(),
  connect: () => { closed = null; provider.connect(); },
  closed: () => closed,
  denied: () => denied,
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...given] = JSON.parse(line);
  console.log(JSON.stringify((await commands[name](...given)) ?? null));
}
