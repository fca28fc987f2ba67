"""A session as a conversation that no agent's format is part of, and from one agent's format into another's.

Open first: ``record``, what a conversation is. ``reading`` has one module for each format that is read, ``writing``
one for each that is written.

How a session of Claude Code becomes one of Codex: ``reading.claude_code`` follows the chain of messages back from the
last one and makes texts, calls with results, and thinking of them, in order; what it cannot take it notes with the
reason. ``fit`` makes the older turns compact if a budget asks for it. ``note`` writes for the next model whose
conversation this was, how to read its tools, and what is missing. ``writing.codex`` writes the lines.

Modules and rooms:

- ``record``: texts, calls, results, thinking, images; turns; what was lost
- ``reading``: lines of each agent into a conversation
- ``writing``: a conversation into lines of each agent
- ``tools``: names of tools of one agent that another has under its own
- ``choose``: some turns of it
- ``fit``: a conversation within a budget of tokens
- ``brief``: a conversation in short, for whoever takes over
- ``note``: what the next model is told before it
- ``show``: a conversation for people

May import: ``crdtsync.sessions.agents``, ``crdtsync.context``, ``crdtsync.errors``.
"""
