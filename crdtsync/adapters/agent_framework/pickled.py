"""A rule for texts (``crdtsync.adapters.redaction``) applied to what Agent Framework has encoded of a checkpoint.

Anything that JSON cannot hold is a pickle there. It is rewritten step by step, and no object is made for it.
"""

from __future__ import annotations

import base64
import pickle
import pickletools
from functools import partial
from typing import Any

from agent_framework._workflows import _checkpoint_encoding as framework

from crdtsync.adapters.redaction import Rule, redacted

TEXTS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")


def redacted_checkpoint(rule: Rule | None, encoded: Any) -> Any:
    """The output of ``encode_checkpoint_value``, with the rule applied to each text, but for names of classes."""
    return encoded if rule is None else redacted(rule, encoded, within=partial(_within, rule))


def _within(rule: Rule, value: Any) -> Any:
    pickled = value.get(framework._PICKLE_MARKER) if isinstance(value, dict) else None  # noqa: SLF001
    if pickled is None or framework._TYPE_MARKER not in value:  # noqa: SLF001
        return None
    rewritten = base64.b64encode(_rewritten(rule, base64.b64decode(pickled))).decode()
    return {**value, framework._PICKLE_MARKER: rewritten}  # noqa: SLF001


def _rewritten(rule: Rule, data: bytes) -> bytes:
    steps = [*pickletools.genops(data)]
    ends = [at for _, _, at in steps[1:]] + [len(data)]
    of_classes = _of_classes([step.name for step, _, _ in steps])
    made, name = bytearray(), ""
    for number, ((step, argument, at), end) in enumerate(zip(steps, ends, strict=True)):
        if step.name in TEXTS and number not in of_classes:
            text = redacted(rule, argument, name).encode("utf-8", "surrogatepass")
            made += pickle.BINUNICODE + len(text).to_bytes(4, "little") + text
            name = str(argument)  # a dict's key comes right before its value
        elif step.name != "FRAME":  # it would say how long what follows was
            made += data[at or 0 : end]
    return bytes(made)


def _of_classes(steps: list[str]) -> set[int]:
    """Which steps name a class: the two before each that looks one up."""
    pushed: list[int] = []
    found: set[int] = set()
    for number, step in enumerate(steps):
        if step == "STACK_GLOBAL":
            found.update(pushed[-2:])
        elif step not in ("MEMOIZE", "FRAME"):
            pushed.append(number)
    return found
