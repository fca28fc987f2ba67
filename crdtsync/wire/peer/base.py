"""One message of the peer protocol is one class: its type, its feature, its fields, its specification.

To change a message is to change one place. For example, this is all there is to ``PROBE``::

    @message
    class Probe(Message):
        \"\"\"Ask whether the receiver gets anywhere.

        ``[11, number]``

        :param number: the answer names it
        \"\"\"

        TYPE = 11
        FEATURE = PROBES

        number: Count

The decorator ``message`` enters the class into the registry, ``MESSAGES``. The decoder, the node's table of handlers,
the reference page, the fuzzer and the tests all start from there. The annotation of a field (``Count``) says what the
field may hold; :mod:`crdtsync.wire.peer.fields` lists these forms. From the annotations follow the bytes, both ways
(:mod:`crdtsync.wire.peer.layout`). CHANGES and ACK, which come with each write, say both ways by hand, in 0.3 to
2 µs in place of 1.5 to 4, and so does HELLO, which is a map.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self, TypeVar, cast, dataclass_transform

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.codec import pack
from crdtsync.wire.peer.layout import layout_of

TYPE_MAX = 127
"""Up to here msgpack packs a number into one byte, so that the type is always the second byte of a message."""


class Message:
    """The base of every message of the peer protocol."""

    __slots__ = ()

    TYPE: ClassVar[int]
    """The first element of its array."""
    FEATURE: ClassVar[str] = ""
    """The feature that a node must name in its HELLO before it is sent this message; empty: every node takes it."""

    def replaced(self, **fields: Any) -> Self:
        """The same message with other values of these fields."""
        return cast("Self", cast("Any", self)._replace(**fields))

    def encode(self) -> bytes:
        """The message as it goes into one websocket frame."""
        return pack([self.TYPE, *layout_of(cast("Any", type(self))).write(self)])

    @classmethod
    def decode(cls, plain: list[Any]) -> Self:
        """The message, from its array; elements after the known ones are ignored.

        :raises ValueError: a field holds what no correct node sends; also TypeError, LookupError, AttributeError.
        """
        message: Self = layout_of(cast("Any", cls)).read(plain[1:])
        message.check()
        return message

    def check(self) -> None:
        """Refuse what no field alone can tell.

        :raises ValueError: no correct node sends it.
        """


ENTERED: Final[dict[int, type[Message]]] = {}
"""The messages of the modules that have been imported, by type. All of them: ``MESSAGES`` of
:mod:`crdtsync.wire.peer.messages`.
"""

_Class = TypeVar("_Class", bound=type[Message])


@dataclass_transform(frozen_default=True)
def message(cls: _Class) -> _Class:
    """Enter a class into the registry, as a named tuple: a dataclass takes each start ten times as long to make."""
    body = {name: held for name, held in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    cls = cast("_Class", cast("Any", type(NamedTuple))(cls.__name__, (NamedTuple, Message), body))
    assert 0 < cls.TYPE <= TYPE_MAX, f"{cls.__name__}: a type is a number from 1 to {TYPE_MAX}"
    assert cls.TYPE not in ENTERED, f"{cls.__name__}: type {cls.TYPE} is {ENTERED[cls.TYPE].__name__}"
    ENTERED[cls.TYPE] = cls
    return cls
