"""Texts: the replica of a Yjs document that a session edits, and the plans that keep it in step with the daemon."""
