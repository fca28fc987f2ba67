"""crdt."""
