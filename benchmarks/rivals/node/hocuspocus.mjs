// A Hocuspocus server in memory; its port is the only argument.
import { Server } from "@hocuspocus/server";

const server = new Server({ port: Number(process.argv[2]), address: "127.0.0.1", quiet: true, stopOnSignals: true });
await server.listen();
