"""headroom-ai in the place of the rules here, for whoever uses it elsewhere and wants the same texts.

It is a package of its own, which crdtsync does not ask for. It is told to stay offline.
"""

from __future__ import annotations

import os
from importlib import import_module

from crdtsync.context.compact.result import CompactDraft
from crdtsync.context.extras import MissingPackage


def compact_by_headroom(text: str, model: str) -> CompactDraft:
    """``text`` as headroom-ai shortens the answer of a tool; :class:`MissingPackage` if it is not installed."""
    os.environ.setdefault("HEADROOM_OFFLINE", "1")
    try:
        shorten = import_module("headroom.compress").compress
    except ImportError as error:
        raise MissingPackage(f"this needs headroom-ai ({error}): pip install headroom-ai") from error
    done = shorten([{"role": "tool", "content": text}], model=model)
    short = str(done.messages[0].get("content", text))
    left_out = [] if short == text else ["what headroom-ai took for dispensable"]
    return CompactDraft(short, [f"headroom: {name}" for name in done.transforms_applied], left_out)
