"""A session as a conversation that no agent's format is part of.

Open first: ``record``, what a conversation is. How a session of Claude Code becomes one of Codex: the one agent's
``read`` follows the chain of messages back from the last one and makes texts, calls with results, and thinking of them,
in order; what it cannot take it notes with the reason. ``choose`` leaves out what is excluded, ``fit`` makes the older
turns compact if a budget asks for it, and the other agent's ``write`` makes lines of the rest.

Modules:

- ``record``: texts, calls, results, thinking, images; turns; what was lost
- ``choose``: some turns of it
- ``fit``: a conversation within a budget of tokens
- ``brief``: a conversation in short, for whoever takes over
- ``edits``: what calls change in files
- ``show``: a conversation for people

May import: ``crdtsync.context``, ``crdtsync.errors``.
"""
