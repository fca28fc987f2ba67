"""Checkpoints of Microsoft Agent Framework's workflows."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException
from agent_framework._workflows._checkpoint_encoding import encode_checkpoint_value

from crdtsync.adapters.agent_framework.decoding import decoded
from crdtsync.adapters.agent_framework.pickled import redacted_checkpoint
from crdtsync.adapters.attached import Attached
from crdtsync.adapters.redaction import Rule
from crdtsync.adapters.threads import reading, writing
from crdtsync.client.values.packer import succeeds
from crdtsync.errors import CrdtSyncError, InvalidValue

if TYPE_CHECKING:
    from crdtsync.client import Client

log = logging.getLogger(__name__)

CHECKPOINTS = "checkpoints"
TOLD_DEPTH_MAX = 20  # of the place of what cannot be stored


class CrdtCheckpointStorage(Attached):
    """Keeps the checkpoints of workflows on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`. A checkpoint is the blob
    ``PREFIX/checkpoints/ID``. ``allowed_checkpoint_types`` are classes of your own that may be read back, as
    ``"module:name"``. Beside these, what another agent has written can make nothing but data of the framework.

    A checkpoint that cannot be read is left out of lists, with a warning in the log: the one before it is the latest.
    """

    def __init__(
        self,
        client: Client | str | os.PathLike[str] | None = None,
        *,
        prefix: str = "agent-framework",
        allowed_checkpoint_types: Sequence[str] = (),
        w: int | str | None = None,
        redact: Rule | None = None,
    ) -> None:
        super().__init__(client, prefix=prefix, w=w, redact=redact)
        self._allowed = frozenset(allowed_checkpoint_types)

    @writing
    def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint; its id.

        :raises WorkflowCheckpointException: it holds what cannot be stored, or could not be read back.
        :raises InvalidValue: a text in it has a lone surrogate.
        """
        said = checkpoint.to_dict()
        try:
            encoded = encode_checkpoint_value(said)
        except Exception as error:
            place, part = _part(said, encode_checkpoint_value)
            why = f"{place} is a {type(part).__qualname__}: {error}"
            raise WorkflowCheckpointException(f"{checkpoint.checkpoint_id} cannot be stored: {why}") from error
        encoded = redacted_checkpoint(self._redact, encoded)
        try:
            decoded(encoded, self._allowed)
        except WorkflowCheckpointException:
            raise
        except Exception as error:
            raise WorkflowCheckpointException(f"{checkpoint.checkpoint_id} could not be read back: {error}") from error
        meta = {"workflow": checkpoint.workflow_name, "timestamp": checkpoint.timestamp}
        try:
            data = _data(encoded)
        except UnicodeEncodeError:
            place, _ = _part(encoded, _data)
            why = f"at {place} there is a lone surrogate, which UTF-8 cannot hold"
            raise InvalidValue(f"{checkpoint.checkpoint_id} cannot be stored: {why}", path=place) from None
        self._client.put_blob(
            self._key(checkpoint.checkpoint_id), data, media_type="application/json", meta=meta, w=self._w
        )
        return str(checkpoint.checkpoint_id)

    @reading
    def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """The checkpoint with an id.

        :raises WorkflowCheckpointException: there is none, or it cannot be read.
        """
        return self._load(self._key(checkpoint_id))

    @reading
    def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """All checkpoints of a workflow that can be read, oldest first."""
        return [*self._newest_first(workflow_name)][::-1]

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Their ids."""
        return [each.checkpoint_id for each in await self.list_checkpoints(workflow_name=workflow_name)]

    @reading
    def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """The newest checkpoint of a workflow that can be read; None if there is none."""
        return next(self._newest_first(workflow_name), None)

    @writing
    def delete(self, checkpoint_id: str) -> bool:
        """Remove a checkpoint; whether there was one."""
        is_there = self._client.entry(self._key(checkpoint_id)) is not None
        self._client.delete(self._key(checkpoint_id), w=self._w)
        return is_there

    def _key(self, checkpoint_id: str) -> str:
        return self._keys.key(CHECKPOINTS, checkpoint_id)

    def _load(self, key: str) -> WorkflowCheckpoint:
        try:
            blob = self._client.get_blob(key)
            encoded = None if blob is None else json.loads(blob.read())
        except (CrdtSyncError, ValueError) as error:
            raise WorkflowCheckpointException(f"{key} cannot be read: {error}") from error
        if blob is None:
            raise WorkflowCheckpointException(f"there is no checkpoint {key}")
        plain = decoded(encoded, self._allowed)
        try:
            return WorkflowCheckpoint.from_dict(plain)
        except Exception as error:
            raise WorkflowCheckpointException(f"{key} holds no checkpoint: {error!r}") from error

    def _newest_first(self, workflow: str) -> Iterator[WorkflowCheckpoint]:
        below = self._keys.below(CHECKPOINTS)
        found = self._client.entries(below, where_meta={"workflow": workflow}, values=False)
        for entry in sorted(found, key=lambda entry: _time(entry.meta), reverse=True):
            try:
                yield self._load(entry.key)
            except Exception as error:  # noqa: BLE001  # whatever decoding it meets
                log.warning("a checkpoint cannot be read, the one before it counts: %s", error)


def _data(encoded: Any) -> bytes:
    return json.dumps(encoded, ensure_ascii=False).encode()


def _part(value: Any, encode: Callable[[Any], object]) -> tuple[str, Any]:
    """The innermost part that cannot be encoded, with its place before it."""
    place = "$"
    for _ in range(TOLD_DEPTH_MAX):
        inside = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
        found = next(((name, part) for name, part in inside if not succeeds(encode, part)), None)
        if found is None:
            break
        place, value = f"{place}.{str(found[0])[:40]}", found[1]
    return place, value


def _time(meta: Any) -> float:
    """When a checkpoint was made; what does not say so counts as the oldest."""
    try:
        return datetime.fromisoformat(meta["timestamp"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return 0.0
