"""Protocol: the agent protocol without its socket: bytes, requests on their way, and the causal point of a client.

Open first: :mod:`crdtsync.client.protocol.in_flight`. Each request gets a number; its reply is matched by it. When
the connection breaks, the requests that have no answer are sent again on the next one. A write carries a number of
its own that the daemon remembers, so a write that is sent twice is done once.

Example: a client writes at node a and its socket then answers as node b. ``seen_point`` knows the token of that
write. Until b has answered once, every request names that token as what it *needs*; b waits for the change before
it answers. So the client reads its own writes wherever it is.

Modules:

- ``frames``: frames out, messages in, as docs/reference/agent-protocol.md says
- ``steps``: the steps of plans: exchange, pause, compute
- ``in_flight``: requests that have no answer yet
- ``seen_point``: what a client has seen and done, as one causal point for each space
- ``address``: which socket, which space, which agent: from arguments and the environment
- ``backoff``: how long to wait before the next attempt to connect
- ``fork``: starting afresh in a child process

May import: ``values``, ``crdtsync.wire``, ``crdtsync.causality``, ``crdtsync.errors``.
"""
