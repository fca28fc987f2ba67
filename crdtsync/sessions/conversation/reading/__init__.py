"""An agent's lines into a conversation.

Open first: ``codex``, the simpler one. Example: ``claude_code.conversation(lines)``.

Modules:

- ``claude_code``: a tree of messages; the way from the last one back
- ``codex``: items in order; forks go on from their parent's
- ``gemini_cli``: messages, each as it stood last
- ``opencode``: messages with their parts

May import: ``crdtsync.sessions.agents`` and ``crdtsync.sessions.conversation.record``.
"""
