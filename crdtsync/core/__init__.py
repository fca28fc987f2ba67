"""The replicated state machine: no I/O, no clock, no entropy. ``now`` and randomness come in as arguments."""
