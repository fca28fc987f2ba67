"""The coding agents whose sessions are known: where their files lie, and what is in them.

Open first: ``places``, which has the table of agents and finds sessions on this machine; then ``codex``, the simplest
format.

Example: ``places.find("codex", "019a…")`` gives a :class:`~crdtsync.sessions.agents.places.Local` with the rollout
file below ``~/.codex/sessions``. Of its lines ``agent.described`` says what it is called and where it was at work, and
``agent.read`` makes a conversation; ``agent.write`` makes lines of a conversation that goes on with that agent.

Modules:

- ``places``: agents by name, sessions on this machine, the place of one that is to be loaded
- ``agent``: what is to be known of each of them
- ``claude_code``, ``codex``, ``gemini_cli``: their files
- ``opencode``: its database, by way of files as it imports and exports them
- ``fields``: objects in JSON of which nothing is sure

All formats change with every release. Records that are not known are kept and passed on as they are.

May import: ``crdtsync.sessions.conversation.record``, ``crdtsync.errors``.
"""
