"""Memory: what agents have learnt about a user, a project or themselves, on all hosts.

Its methods have the names, arguments and results of a memory that many agent programs use: ``add``, ``search``,
``get_all``, ``update`` and so on, with ``user_id``, ``agent_id`` and ``run_id``. It asks no model: who has one hands
in ``extract``, which makes facts of a conversation, and ``merge``, which decides what a new fact does to old ones.

Example: Ann's agent adds "prefers night trains" for the user alice on one host, Bob's agent the same on another. The
id of a memory is a hash of what it says and of whom, so the two are one.

A memory is also a *fact in time*: it holds from a moment on, until another one supersedes it. What held last week
can still be asked for, and facts about one thing that say different things at the same time are shown.

Open first: ``aio``.

Modules:

- ``aio``, ``blocking``: the memory of one client
- ``curate``: memories that say the same, and stale ones
- ``record``: a memory as it is stored, as it is shown, and what is asked of it

May import: ``crdtsync.context.search``; beside these as all of ``crdtsync.context``.
"""
