"""The least that a checkpointer does whose data lie in another process, ``benchmarks/rivals/bare_server.py``.

A put is one request, with what the step has changed and the versions of all channels, in LangGraph's encoding, and so
is what a task has written. The latest checkpoint is one request; the values of its channels are held in memory. There
are no branches, nothing is looked for, and nobody else writes.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Any

import msgpack
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, get_checkpoint_metadata

_pack = msgpack.Packer().pack


class _Connections(threading.local):
    """One for each thread."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._frames = msgpack.Unpacker()

    def ask(self, *request: Any) -> Any:
        self._socket.sendall(_pack(request))
        while True:
            data = self._socket.recv(65536)
            assert data, "the bare server has ended"
            self._frames.feed(data)
            for reply in self._frames:
                return reply


class BareSaver(BaseCheckpointSaver[int]):  # type: ignore[misc]  # of a class that mypy does not see
    """Those of threads without subgraphs."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.ask = _Connections(path).ask
        self._values: dict[str, dict[str, Any]] = {}

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint in the place of the one before."""
        thread, values = config["configurable"]["thread_id"], checkpoint["channel_values"]
        changed = {name: values[name] for name in new_versions if name in values}
        parent = config["configurable"].get("checkpoint_id")
        said = get_checkpoint_metadata(config, metadata)
        _, data = self.serde.dumps_typed([{**checkpoint, "channel_values": changed}, said, parent])
        self.ask("set", thread, data)
        self._values[thread] = values
        return _config(thread, checkpoint["id"])

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Store what a task has written."""
        place = config["configurable"]
        _, data = self.serde.dumps_typed([[*each] for each in writes])
        self.ask("set", f"{place['thread_id']}/{place['checkpoint_id']}/{task_id}", data)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """The newest checkpoint of a thread; None: there is none."""
        thread = config["configurable"]["thread_id"]
        data = self.ask("get", thread)
        if data is None:
            return None
        checkpoint, metadata, parent = self.serde.loads_typed(("msgpack", data))
        checkpoint["channel_values"] = self._values[thread].copy()
        before = _config(thread, parent) if parent else None
        return CheckpointTuple(_config(thread, checkpoint["id"]), checkpoint, metadata, before, [])


def _config(thread: str, checkpoint_id: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}}
