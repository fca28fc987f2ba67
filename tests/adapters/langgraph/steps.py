"""Checkpoints that take several changes each: ``put`` stores one after the other, ``show`` tells of the newest one."""

from __future__ import annotations

import os
import sys
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint

from crdtsync.adapters.langgraph import CrdtSaver

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}

with CrdtSaver() as saver:
    if sys.argv[1] == "show":
        newest = saver.get_tuple(CONFIG)
        assert newest is not None
        print(newest.metadata["step"], len(newest.checkpoint["channel_values"]["long"]))
        sys.exit()
    config, step = CONFIG, 0
    while True:
        versions: Any = {"long": saver.get_next_version(None, None)}
        values = {"long": os.urandom(4_000_000)}
        checkpoint: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
        config = saver.put(config, checkpoint, {"source": "loop", "step": step}, versions)
        print(step, flush=True)
        step += 1
