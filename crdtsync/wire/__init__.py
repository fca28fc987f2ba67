"""Bytes in, values out: framing, the strict codec, changes, messages, tokens, and the bounds on all of them."""
