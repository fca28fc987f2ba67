"""A conversation into the lines of an agent that goes on with it.

Open first: ``codex``. Example: ``codex.lines(conversation, head)``.

Modules:

- ``claude_code``: a chain of messages
- ``codex``: items with the events that make turns of them
- ``gemini_cli``: messages with their calls in them
- ``opencode``: the same, as a document that it imports
- ``head``: what a new session is told of itself

May import: ``crdtsync.sessions.agents``, ``crdtsync.sessions.conversation.record`` and
``crdtsync.sessions.conversation.tools``.
"""
