"""Which keys a checkpoint is made of.

    langgraph/checkpoints/THREAD/NAMESPACE/ID      what LangGraph says of it, which versions of channels it has, and
                                                   what it took in of delta channels
    langgraph/checkpoints/THREAD/NAMESPACE/ID/TASK/INDEX   what tasks have written after it
    langgraph/values/THREAD/NAMESPACE/CHANNEL/VERSION
    langgraph/parts/THREAD/NAMESPACE/DIGEST.NUMBER    of records that are too long for a key

So one listing, from the end on, has the newest checkpoint and what was written after it. Earlier versions kept that
apart, below ``langgraph/writes/``: of a checkpoint that does not say ``beside`` it is looked for there, too.
They do not see what stands below it.

No network, so that both checkpointers can share it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter, OrderedDict
from itertools import count
from operator import itemgetter
from threading import Lock
from types import NoneType
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, get_checkpoint_metadata

from crdtsync.adapters.keys import Keys, quoted
from crdtsync.adapters.langgraph.records import DamagedCheckpoint, Write, has_parts, pack, part_keys, unpack
from crdtsync.adapters.langgraph.redaction import redacted_encoding
from crdtsync.adapters.langgraph.written import KEPT_BYTES, KEPT_OVERHEAD, Order, Taken, Written, run_of
from crdtsync.adapters.redaction import Rule
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol

CHECKPOINTS, VALUES, WRITES, PARTS = "checkpoints", "values", "writes", "parts"
KINDS = (CHECKPOINTS, WRITES, VALUES, PARTS)
"""In the order in which they are removed: what refers to others goes first."""

Stored = dict[str, dict[str, Any]]
"""The stored parts of checkpoints, by their keys: themselves, and what tasks have written after them, by key."""

_OWN_VERSION = re.compile(r"/\d{10}\.[0-9a-f]{12}$")

Typed = tuple[str, bytes]

_FIXED = frozenset((NoneType, bool, int, float, str, bytes))
"""Types of values that nobody can change, so one serves all who read it."""
_CHANGING = object()  # in the place of any other


class Record(NamedTuple):
    """A checkpoint without the values of its channels."""

    key: str
    thread: str
    namespace: str
    id: str
    parent: str | None
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    value_keys: Mapping[str, str]  # where the values are, by channel
    took: Sequence[Taken] | None  # what it took in of its delta channels' writes; None: whatever its parent has
    stored: Mapping[str, Any]  # itself, and what tasks have written after it, by key
    has_writes_beside: bool  # and nowhere else


class Found(CheckpointTuple):
    """A checkpoint as LangGraph takes it, and what it took in."""

    took: Sequence[Taken] | None = None


def place_of(config: RunnableConfig) -> tuple[str, str]:
    """The thread and the namespace that a configuration names."""
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")


def config_of(thread: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    """The configuration that names one checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


class _Suffixes:
    """Twelve digits for each version, which no other process has: they count on from a random number.

    A checkpoint names a version for each channel, and numbers that follow each other take half the bytes of random
    ones when they are compressed.
    """

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._numbers = count(secrets.randbits(48))

    def next(self) -> str:
        return f"{next(self._numbers) % 2**48:012x}"


_SUFFIXES = _Suffixes()


def next_version(current: str | float | None) -> str:
    """A version after ``current``, which no branch of the thread has too, on this host or another."""
    number = 0 if current is None else int(str(current).split(".")[0])
    return f"{number + 1:010}.{_SUFFIXES.next()}"


class Layout:
    """From what LangGraph hands over to keys, and back; ``redact`` changes the texts in it before they are written."""

    def __init__(self, prefix: str, redact: Rule | None = None) -> None:
        self._keys = Keys(prefix, "thread id")
        self._redact = redact
        self.kept = Kept()
        self.written = Written()
        self.told: set[str] = set()
        """Damages of which the log has a warning."""
        self.keys_of_one = 2
        """As many keys as the checkpoint that was read last has: itself, and what tasks have written after it."""
        self._before: tuple[tuple[str, str], dict[str, str | float], dict[str, str]] = ("", ""), {}, {}
        self._read: tuple[str, Any, Typed, Record | None] = "", None, ("", b""), None
        """The checkpoint that was read last: its key, what is stored there, and what that says."""
        self.key = self._keys.key
        self.below = self._keys.below
        self.names = self._keys.names
        self._tasks = tuple(f"{self.key(kind)}/" for kind in (CHECKPOINTS, WRITES))
        self._head_parts = len(self.key(CHECKPOINTS, "thread", "namespace", "id").split("/"))

    def parts(self, thread: str, namespace: str) -> str:
        """The keys of parts begin so."""
        return self.below(PARTS, thread, namespace)

    # -- to keys ------------------------------------------------------------------------------------------------

    def put(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Iterator[Write]:
        """The keys of a checkpoint: values, and last the checkpoint itself."""
        thread, namespace = place_of(config)
        parts = self.parts(thread, namespace)
        values = checkpoint["channel_values"]
        for channel, version in new_versions.items():
            if channel in values:
                key = self.value_key(thread, namespace, channel, version)
                kind, data = self._encoded(serde, values[channel], channel)
                yield from pack(key, self._name(key), parts, data, type=kind)
                self.kept.add(key, (kind, data))
        said = get_checkpoint_metadata(config, metadata)
        if self._redact is not None:  # but no text of the checkpoint itself, such as versions and names of channels
            said = serde.loads_typed(self._encoded(serde, said))
        rest = {name: field for name, field in checkpoint.items() if name != "channel_values"}
        channels = [channel for channel in checkpoint["channel_versions"] if channel in values]
        parent = config["configurable"].get("checkpoint_id")
        record = {"checkpoint": rest, "metadata": said, "channels": channels}
        if parent and (deltas := set(metadata.get("counters_since_delta_snapshot") or ()) - values.keys()):
            is_copy = metadata.get("source") == "fork"  # of one that is not named
            run = run_of(config)
            record["took"] = None if is_copy else self.written.of((thread, namespace, parent), run, deltas)
        self.written.begin(thread, namespace, checkpoint["id"])
        kind, data = serde.dumps_typed(record)
        run_id = said.get("run_id")
        key = self.key(CHECKPOINTS, thread, namespace, checkpoint["id"])
        yield from pack(
            key,
            self._name(key),
            parts,
            data,
            meta={"run_id": run_id} if isinstance(run_id, str) else None,
            type=kind,
            parent=parent,
            beside=True,
        )

    def put_writes(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Iterator[Write]:
        """The keys of what a task has written. A value stays what it first was; errors and the like are replaced."""
        thread, namespace = place_of(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        after, run = (thread, namespace, checkpoint_id), run_of(config)
        indices = [WRITES_IDX_MAP.get(channel, place) for place, (channel, _) in enumerate(writes)]
        counts = Counter(index >= 0 for index in {*indices})
        for index, (channel, value) in zip(indices, writes, strict=True):
            kind, data = self._encoded(serde, value, channel)
            self.written.add(after, run, (task_path, task_id, index), (task_id, channel, kind, data))
            key = self.key(CHECKPOINTS, thread, namespace, checkpoint_id, task_id, str(index))
            yield from pack(
                key,
                self._name(key),
                self.parts(thread, namespace),
                data,
                if_absent=index >= 0,
                type=kind,
                channel=channel,
                path=task_path,
                of=counts[index >= 0],
            )

    def _encoded(self, serde: SerializerProtocol, value: Any, name: str = "") -> tuple[str, bytes]:
        kind, data = serde.dumps_typed(value)
        return kind, data if self._redact is None else redacted_encoding(self._redact, kind, data, name)

    def value_key(self, thread: str, namespace: str, channel: str, version: str | float) -> str:
        """The key of a channel's value."""
        return f"{self.below(VALUES, thread, namespace)}{quoted(channel)}/{quoted(str(version))}"

    def _name(self, key: str) -> str:
        """The key of a record without prefix, kind and thread: it stays when a thread is copied."""
        return key.split("/", self._head_parts - 2)[-1]

    def _value_keys(self, thread: str, namespace: str, versions: dict[str, str | float]) -> dict[str, str]:
        """Where the values of a checkpoint are, by channel. It has most of them in common with the one read before."""
        place, old, keys = self._before
        if place != (thread, namespace):
            old, keys = {}, {}
        elif versions == old:
            return keys
        new = {channel: each for channel, each in versions.items() if old.get(channel) != each}
        keys = {**keys, **{channel: self.value_key(thread, namespace, channel, each) for channel, each in new.items()}}
        if len(keys) > len(versions):
            keys = {channel: keys[channel] for channel in versions}
        self._before = (thread, namespace), versions, keys
        return keys

    # -- back ---------------------------------------------------------------------------------------------------

    def part_keys(self, heads: Mapping[str, Any]) -> list[str]:
        """The keys of what these heads do not hold themselves."""
        found = []
        for key, head in heads.items():
            if has_parts(head):
                found += part_keys(head, self.parts(*self.names(key)[:2]))
        return found

    def typed(self, key: str, stored: Mapping[str, Any]) -> tuple[str, bytes]:
        """The value written at ``key``, as it was encoded.

        :raises DamagedCheckpoint: it is not there, or not whole.
        """
        if key not in stored:
            raise DamagedCheckpoint(f"{key} is missing")
        head = stored[key]
        data = unpack(key, self._name(key), head, self.parts(*self.names(key)[:2]) if has_parts(head) else "", stored)
        return head.get("type"), data

    def record(self, serde: SerializerProtocol, key: str, stored: Mapping[str, Any]) -> Record:
        """The checkpoint that was written at ``key``.

        :raises DamagedCheckpoint: it is not there, or not whole.
        """
        known, head, typed, before = self._read
        if before is not None and known == key and head == stored.get(key):
            said = decoded(serde, key, typed)  # anew: whoever has the one before may change it
            return before._replace(checkpoint=said["checkpoint"], metadata=said["metadata"], stored=stored)
        typed = self.typed(key, stored)
        said, head = decoded(serde, key, typed), stored[key]
        try:
            thread, namespace, checkpoint_id = self.names(key)
            versions = said["checkpoint"]["channel_versions"]
            if said["checkpoint"]["id"] != checkpoint_id:
                raise ValueError(said["checkpoint"]["id"])
            values = self._value_keys(thread, namespace, {each: versions[each] for each in said["channels"]})
            took = None if said.get("took") is None else [_taken(*each) for each in said["took"]]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DamagedCheckpoint(f"{key} says nothing of a checkpoint: {error!r}") from error
        found = Record(
            key, thread, namespace, checkpoint_id, head.get("parent"), said["checkpoint"], said["metadata"], values,
            took, stored, head.get("beside") is True,
        )  # fmt: skip
        if not has_parts(head):
            self._read = key, head, typed, found._replace(stored={})
        return found

    def grouped(self, rows: Iterable[tuple[str, Any]], left: Stored) -> tuple[Stored, Stored]:
        """The checkpoints among keys in reversed order, each with what tasks have written after it.

        And what is of those that come later, of which ``left`` was there before.
        """
        found, at = {}, ""
        for at, value in rows:
            head = "/".join(at.split("/", self._head_parts)[: self._head_parts])
            left.setdefault(head, {})[at] = value
            if at == head:
                found[head] = left.pop(head)
        return found, {head: stored for head, stored in left.items() if head < at}

    def pending(self, serde: SerializerProtocol, record: Record) -> list[Any]:
        """The writes of tasks after a checkpoint, in the order in which LangGraph applies it.

        Each says ``of`` how many its task wrote at once: values, or errors and the like, which others come beside.

        :raises DamagedCheckpoint: a write is not there, or not whole.
        """
        found: dict[tuple[str, int], tuple[Order, str, Any, Typed]] = {}
        counts: dict[tuple[str, bool], int] = {}
        place = record.thread, record.namespace, record.id
        self.written.begin(*place)
        for key in [key for key in record.stored if key.startswith(self._tasks) and key != record.key]:
            typed = self.typed(key, record.stored)
            value = decoded(serde, key, typed)
            head = record.stored[key]
            try:
                task_id, number = self.names(key)[3:]
                order, channel = (str(head["path"]), task_id, int(number)), head["channel"]
                kind = task_id, order[2] >= 0
                counts[kind] = max(counts.get(kind, 0), head.get("of", 0))
            except (KeyError, TypeError, ValueError) as error:
                raise DamagedCheckpoint(f"{key} says nothing of a task: {error!r}") from error
            if order[2] >= 0 or order[1:] not in found:  # what an earlier version has stored comes last
                found[order[1:]] = order, channel, value, typed
        there = Counter((task_id, number >= 0) for task_id, number in found)
        for kind, wanted in counts.items():
            if there[kind] < wanted:
                raise DamagedCheckpoint(f"{record.key} lacks some of the {wanted} writes of task {kind[0]}")
        ordered = sorted(found.values(), key=itemgetter(0))
        for order, channel, _, typed in ordered:
            self.written.add(place, None, order, (order[1], channel, *typed))
        return [(order[1], channel, value) for order, channel, value, _ in ordered]

    def tuple_of(self, record: Record, values: dict[str, Any], pending: list[Any]) -> CheckpointTuple:
        """A checkpoint as LangGraph takes it."""
        place = record.thread, record.namespace
        found = Found(
            config=config_of(*place, record.id),
            checkpoint={**record.checkpoint, "channel_values": values},
            metadata=record.metadata,
            parent_config=config_of(*place, record.parent) if record.parent else None,
            pending_writes=pending,
        )
        found.took = record.took
        return found


def _taken(task: object, channel: object, kind: object, data: object) -> Taken:
    if not isinstance(data, bytes):  # of an integer, bytes would make so many
        raise TypeError(f"{type(data).__name__} in the place of what a task has written")
    return str(task), str(channel), str(kind), data


class Kept:
    """Values of channels that this process has written or read, the last ones, up to a number of bytes.

    What a version of ours names never changes, so it need not be read again. It is kept as it was encoded, to be
    decoded anew for each checkpoint, but for what nobody can change.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[str, tuple[Typed, Any, int]] = OrderedDict()
        self._bytes = 0
        self._whole: tuple[Mapping[str, str], dict[str, Any]] = {}, {}
        self._lock = Lock()

    def add(self, key: str, typed: Typed, value: Any = _CHANGING) -> None:
        """Keep a value, and its decoded form if nobody can change that."""
        size = len(typed[1]) + len(key) + KEPT_OVERHEAD
        if size > KEPT_BYTES // 4 or not _OWN_VERSION.search(key):
            return
        with self._lock:
            self._bytes += size - self._found.pop(key, (None, None, 0))[2]
            self._found[key] = typed, value, size
            while self._bytes > KEPT_BYTES:
                self._bytes -= self._found.popitem(last=False)[1][2]

    def forget(self) -> None:
        """Keep nothing: somebody wants to know what is stored."""
        with self._lock:
            self._found.clear()
            self._bytes = 0
            self._whole = {}, {}

    def add_whole(self, keys: Mapping[str, str], values: dict[str, Any]) -> None:
        """All values of the checkpoint that was read last, by channel, if each is kept; nobody can change them."""
        with self._lock:
            if self._found.keys() >= set(keys.values()):
                self._whole = keys, values

    def whole(self, keys: Mapping[str, str]) -> dict[str, Any] | None:
        """Those of the checkpoint with these very keys; None: another one was read last, or not all is kept."""
        known, values = self._whole
        return values.copy() if known is keys else None

    def take(self, keys: Iterable[str]) -> dict[str, tuple[Typed, Any]]:
        """Those that are there."""
        with self._lock:
            found = {key: self._found[key][:2] for key in keys if key in self._found}
            for key in found:
                self._found.move_to_end(key)
        return found


class Values:
    """The values of channels that have been read, for several checkpoints: they have most of it in common.

    Each value is looked at once.
    """

    def __init__(self, layout: Layout, serde: SerializerProtocol) -> None:
        self._layout = layout
        self._serde = serde
        self._stored: dict[str, Any] = {}
        self._held: dict[str, tuple[Typed, Any]] = {}
        self._whole: dict[str, dict[str, Any]] = {}  # by the key of a checkpoint
        self._is_alone = False
        self._before: tuple[Mapping[str, str], dict[str, Any]] = {}, {}
        """Keys and values of the last checkpoint of which nobody can change anything: the next one has most of them."""

    def lacking(self, records: Sequence[Record]) -> list[str]:
        """The keys that these checkpoints need and that have not been read; what they do not need is forgotten."""
        needed: set[str] = set()
        self._whole, self._stored, self._is_alone = {}, {}, len(records) == 1
        for record in records:
            if (values := self._layout.kept.whole(record.value_keys)) is not None:
                self._whole[record.key] = values
            else:
                needed.update(record.value_keys.values())
        self._held = {key: held for key, held in self._held.items() if key in needed}
        self._held |= self._layout.kept.take(needed - self._held.keys())
        return sorted(needed - self._held.keys())

    def take(self, stored: dict[str, Any]) -> None:
        """Take in what was read, with its parts."""
        self._stored = stored

    def of(self, record: Record) -> dict[str, Any]:
        """The values of a checkpoint, by channel.

        :raises DamagedCheckpoint: one is not there, or not whole.
        """
        if record.key in self._whole:
            return self._whole[record.key]
        keys, fixed = self._before
        new = {channel: key for channel, key in record.value_keys.items() if keys.get(channel) is not key}
        made = {channel: self._value(key) for channel, key in new.items()}
        found = {**fixed, **made}
        if len(found) > len(record.value_keys):
            found = {channel: found[channel] for channel in record.value_keys}
        if all(type(value) in _FIXED for value in made.values()):
            self._before = record.value_keys, found.copy()
            if self._is_alone:
                self._layout.kept.add_whole(*self._before)
        return found

    def _value(self, key: str) -> Any:
        held = self._held.get(key)
        if held is not None and held[1] is not _CHANGING:
            return held[1]
        typed = self._layout.typed(key, self._stored) if held is None else held[0]
        value = decoded(self._serde, key, typed)
        is_fixed = type(value) in _FIXED
        if held is None or is_fixed:
            self._held[key] = typed, value if is_fixed else _CHANGING
            self._layout.kept.add(key, *self._held[key])
        return value


class Histories:
    """The histories to rebuild delta channels from, as LangGraph's own savers tell it, from the newest one back."""

    def __init__(self, channels: Sequence[str]) -> None:
        self.left = set(channels)
        self._found: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}

    def add(self, serde: SerializerProtocol, after: CheckpointTuple, before: CheckpointTuple) -> None:
        """One more checkpoint, ``before``, and what the one that goes on from it took in."""
        took = after.took if isinstance(after, Found) else None
        if took is None:
            writes = before.pending_writes or []
        else:
            name = after.config["configurable"]["checkpoint_id"]
            writes = [(task, channel, decoded(serde, name, (kind, data))) for task, channel, kind, data in took]
        values = before.checkpoint["channel_values"]
        for channel in sorted(self.left):
            found = self._found[channel]
            found["writes"] = [*(write for write in writes if write[1] == channel), *found["writes"]]
            if channel in values:
                found["seed"] = values[channel]
                self.left.discard(channel)

    def found(self) -> Mapping[str, DeltaChannelHistory]:
        """All that was found, by channel."""
        return self._found


def decoded(serde: SerializerProtocol, key: str, typed: tuple[str, bytes]) -> Any:
    """The value that was encoded.

    :raises DamagedCheckpoint: LangGraph cannot make anything of it.
    """
    try:
        return serde.loads_typed(typed)
    except Exception as error:
        raise DamagedCheckpoint(f"{key} cannot be decoded: {error}") from error
