"""Access: who an agent is, what it may do, and how much of it.

Example: ``agent:critic`` may read ``plan/**`` in the space ``team``. The critic asks for ``set plan/goal``. The
table of requests (:mod:`crdtsync.wire.requests`) says that ``set`` needs the right ``WRITE`` on that key; the
authorizer finds the agent's grant in that space; the rule gives it ``READ``; the request is refused before anything
looks at the key.

Open first: ``requirements``, which takes from that table what each request needs, then
:class:`~crdtsync.core.access.authorizer.Authorizer`, whose ``check`` every request passes once. Rules, agents and
quotas are records of the cluster (``crdtsync.core.cluster``), so all nodes have the same ones. The authorizer works out
an agent's rights in a space at its first request there, and keeps them with the agent. When records change, here or on
another node, it drops what it kept, and ends whatever runs and is no longer allowed (``agents.revocation``).

Modules:

- ``requirements``: which right each request needs, and on what
- ``agent``: :class:`~crdtsync.core.access.agent.Agent`, one that is attached
- ``authorizer``: who an agent is, and the checks
- ``rules``: rules as they are looked up: a grant is what one agent may do in one space
- ``records``: rules, agents and quotas as the cluster stores them, and how two that were written at once are merged
- ``record_cleanup``: removes records that no longer say anything, once no member can write on from them
- ``quotas``: how much one agent may ask of its daemon, over all its connections
- ``requests``: what agents ask about all this: make and revoke agents, grant, revoke, set quotas, list

May import: the rooms of the core below it (see :mod:`crdtsync.core`), of which it uses ``cluster`` and ``kinds``.
``agents`` calls it; this room knows nothing of requests beyond their names and arguments. For users,
docs/how-to/rights.md.
"""
