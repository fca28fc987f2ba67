"""Checkpoints of another checkpointer, brought over."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from copy import copy
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from crdtsync.adapters.langgraph.checkpoints import CHECKPOINTS, VALUES, Layout, config_of, place_of
from crdtsync.errors import InvalidRequest, TooLarge

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

    from crdtsync.adapters.redaction import Rule
    from crdtsync.client import Client

log = logging.getLogger(__name__)

_OF_ONE = (
    ArithmeticError, AttributeError, LookupError, NotImplementedError, RecursionError, TypeError, ValueError,
    InvalidRequest, TooLarge,
)  # fmt: skip
"""The errors if a checkpoint is none, or cannot be stored. All else is about the source or the daemon."""

_DAMAGE = "crdtsync: cannot be decoded"


def bring_over(
    source: BaseCheckpointSaver[Any],
    client: Client,
    *,
    prefix: str = "langgraph",
    dry_run: bool = False,
    limit: int | None = None,
    redact: Rule | None = None,
    configs: Iterable[RunnableConfig] | None = None,
) -> Generator[bool | None, None, None]:
    """Copy the checkpoints of any checkpointer of LangGraph, with what tasks have written after each.

    Yields for each, newest first, whether it is new: those that are there already stay, so that what was ended
    half-way can be repeated. None: it cannot be found, read or stored, and was left out, with a warning in the log.
    With ``dry_run`` nothing is written. ``limit`` is how many at most; a ``RedisSaver`` lists 10,000 without it.
    ``redact`` is a rule for texts, as a checkpointer takes it. ``configs`` names checkpoints one by one, in place of
    the list of ``source``, which ends with an error where it cannot read more than an encoded value.

    Objects go over as they are stored, and are not made: so nothing that a stranger's checkpoint names is called. Those
    of a checkpointer with a serializer of its own are made by that.
    """
    from crdtsync.adapters.langgraph.saver import CrdtSaver

    saver, layout = CrdtSaver(client, prefix=prefix, redact=redact), Layout(prefix)
    source = copy(source)
    serde: Any = source.serde
    if type(serde) is JsonPlusSerializer and not serde.pickle_fallback:
        serde = JsonPlusSerializer(__unpack_ext_hook__=ormsgpack.Ext)
    source.serde = _Forgiving(serde)
    stored = {key for each in (CHECKPOINTS, VALUES) for key in client.keys(layout.below(each))}

    def bring(found: CheckpointTuple) -> bool:
        _check_whole(found)
        place, versions = place_of(found.config), found.checkpoint["channel_versions"]
        keys = {channel: layout.value_key(*place, channel, version) for channel, version in versions.items()}
        is_new = layout.key(CHECKPOINTS, *place, found.checkpoint["id"]) not in stored
        if is_new and not dry_run:
            _copy(saver, found, {channel: versions[channel] for channel in keys if keys[channel] not in stored})
            stored.update(keys.values())
        return is_new

    for each in source.list(None, limit=limit) if configs is None else configs:
        is_new = None
        try:
            is_new = bring(_named(source, each) if isinstance(each, dict) else each)
        except _OF_ONE as error:
            config = each if isinstance(each, dict) else each.config
            names = {name: f"{value!s:.60}" for name, value in config["configurable"].items()}
            log.warning("the checkpoint %s was left out: %s", names, _why(error))
        yield is_new


def _why(error: Exception) -> str:
    if type(error) in (InvalidRequest, LookupError, TooLarge, ValueError):
        return str(error)
    return f"it has no {error}" if isinstance(error, KeyError) else f"it cannot be read: {error}"


class _Unreadable(dict[str, Any]):
    """In the place of what cannot be decoded; also in a checkpoint that a saver has put together of one."""

    def __init__(self, error: Exception) -> None:
        super().__init__({_DAMAGE: error, "channel_versions": {}})


class _Forgiving:
    """A serializer that raises nothing, so that a list goes on. All else is as its saver expects it: a ``RedisSaver``
    has its serializer make messages.
    """

    def __init__(self, serde: Any) -> None:
        self._serde = serde

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self).get("_serde"), name)

    def loads_typed(self, data: Any) -> Any:
        try:
            return self._serde.loads_typed(data)
        except _OF_ONE as error:
            return _Unreadable(error)


def _check_whole(found: CheckpointTuple) -> None:
    """:raises ValueError: a part of it could not be decoded."""
    values = found.checkpoint.get("channel_values") or {}
    parts = found.checkpoint, found.metadata, *values.values(), *(value for _, _, value in found.pending_writes or ())
    for part in parts:
        if isinstance(part, dict) and _DAMAGE in part:
            raise ValueError(f"it cannot be decoded: {part[_DAMAGE]}")


def _named(source: BaseCheckpointSaver[Any], config: RunnableConfig) -> CheckpointTuple:
    for found in source.list(config, limit=1):
        return found
    raise LookupError("it is not found there, or no more")


def _copy(saver: Any, found: CheckpointTuple, new_versions: Any) -> None:
    """Store a checkpoint, after what has been written to it: so where it is there, all of it is."""
    place = place_of(found.config)
    parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
    config = config_of(*place, found.checkpoint["id"])
    for task, writes in groupby(found.pending_writes or (), key=itemgetter(0)):
        saver.put_writes(config, [(channel, value) for _, channel, value in writes], task)
    before: Any = config_of(*place, parent) if parent else {"configurable": config_of(*place, "")["configurable"]}
    if not parent:
        del before["configurable"]["checkpoint_id"]
    saver.put(before, found.checkpoint, found.metadata, new_versions)
