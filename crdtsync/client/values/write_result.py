"""The result of a write: its token, and on it what the reply said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from crdtsync.client.values.results import Entry


class Written(str):
    """The token of a write, a str that ``after=`` and ``wait`` take, with what else is known about the write.

    ``value`` is what :meth:`~crdtsync.client.Client.update` wrote; None elsewhere.
    """

    __slots__ = ("_key", "_reply", "value")

    _key: str
    _reply: dict[str, Any]  # as it came: few callers look
    value: Any  # what the caller's own function returned

    def __new__(cls, token: str, key: str, reply: dict[str, Any]) -> Self:
        """Wrap a reply that came with ``token``."""
        self = str.__new__(cls, token)
        self._key = key
        self._reply = reply
        self.value = None
        return self

    @property
    def token(self) -> str:
        """The token, as what reads and batches give back has it: this str itself, without what else it knows."""
        return str.__str__(self)

    @property
    def version(self) -> str | None:
        """The version of the entry that was written, alone."""
        return self._reply.get("version")

    @property
    def hybrid_time(self) -> int:
        """When it was written, as a hybrid time; see :attr:`clock`."""
        from crdtsync.wire.tokens import decode_version

        return 0 if self.version is None else decode_version(self.version).hlc

    @property
    def clock(self) -> int:
        """For a ``set`` with ``bind``: the hybrid time of the space, a whole number; what anybody writes after having
        seen this has a higher one.
        """
        return int(self._reply.get("clock") or 0)

    @property
    def alone(self) -> int:
        """For a ``set`` with ``bind``: the hybrid time of the write itself, which no other write of the key has, if
        nothing else lived under the key when it was answered, and nothing later had come from other hosts; else, and
        from older daemons, 0.
        """
        return int(self._reply.get("alone") or 0)

    @property
    def siblings(self) -> int:
        """How many other entries of the key live on beside it."""
        return int(self._reply.get("siblings") or 0)

    @property
    def behind(self) -> bool:
        """Whether the author had read more than this daemon holds yet: the rest arrives later, as a sibling."""
        return bool(self._reply.get("behind"))

    @property
    def replaced(self) -> Entry | None:
        """The entry that a blind write replaced unseen; None if there was none, or the write was not blind."""
        from crdtsync.client.values.results import entry_from_wire

        replaced = self._reply.get("replaced")
        return None if replaced is None else entry_from_wire(self._key, replaced)

    @property
    def replaced_fields(self) -> dict[str, Entry]:
        """For a blind merge into a map: the entries that it replaced unseen, by their fields."""
        from crdtsync.client.values.results import entry_from_wire

        replaced = self._reply.get("replaced_fields") or {}
        return {name: entry_from_wire(self._key, fields) for name, fields in replaced.items()}

    @property
    def lost(self) -> list[Entry]:
        """The entries that the write took along unseen, since its key had as many siblings as it may have."""
        from crdtsync.client.values.results import entry_from_wire

        return [entry_from_wire(self._key, fields) for fields in self._reply.get("lost") or ()]

    @property
    def existed(self) -> bool:
        """For a schema: whether something was declared for the pattern before."""
        return bool(self._reply.get("existed"))

    @property
    def removed(self) -> int:
        """For a purge: how many keys it removed at once."""
        return int(self._reply.get("removed") or 0)

    @property
    def more(self) -> bool:
        """For a purge: whether it goes on with other keys in the background."""
        return bool(self._reply.get("more"))

    @property
    def resolved(self) -> int:
        """For a resolution: how many concurrent values it settled."""
        return int(self._reply.get("resolved") or 0)

    @property
    def document(self) -> str | None:
        """For an edit of a text: the name of its Yjs document."""
        return self._reply.get("document")

    @property
    def bytes_before(self) -> int:
        """For the compaction of a text: how large its document was."""
        return int(self._reply.get("bytes_before") or 0)

    @property
    def bytes_after(self) -> int:
        """For the compaction of a text: how large its document is now."""
        return int(self._reply.get("bytes_after") or 0)

    @property
    def nodes(self) -> int:
        """How many nodes had it on disk when the call returned."""
        return int(self._reply.get("nodes") or 1)
