"""The peer protocol: what daemons say to each other.

For example, host-a dials host-b. Host-a has a change that host-b lacks, number 8 of writer 77::

    a → b  [1, {"node": "3f…", "features": ["snapshots", …], "spaces": {"default": [0, [77, 8, hash]]}, …}]     HELLO
    b → a  [1, {"node": "9c…", "features": ["snapshots", …], "spaces": {"default": [0, [77, 7, hash]]}, …}]     HELLO
    a → b  [2, "default", 0, [body]]                                                                        CHANGES
    b → a  [3, 316, [["default", 0, [77, 8], cut, digest]]]                                                     ACK

Frames
------

A daemon opens one websocket to each address that it dials. Each binary websocket message holds one msgpack array, and
the first element of the array is the type of the message. Between hosts the websocket runs over TLS: each side shows a
key, and a daemon speaks only to the keys of its cluster's members. Plain text is allowed on loopback alone. The
websocket's own compression and pings are switched off.

A message ends with the elements that this page names. If more follow, they come from a newer version, and the receiver
ignores them. A message of an unknown type is ignored too.

A host that is not a member yet says something else on its connection: :mod:`crdtsync.wire.peer.joining`.

Features
--------

A newer daemon has messages that an older one does not know. So each HELLO lists the features of its sender. If a
message belongs to a feature, a daemon sends that message only to a node whose HELLO names the feature. A message
without a feature goes to every node. One feature has no message: a node that names ``deflate`` takes the parts of a
snapshot compressed.

The life of a connection
------------------------

Either side sends its HELLO as soon as the connection is open, without waiting for the other.

==========  ================================================  ==========
state       event                                             next
==========  ================================================  ==========
opened      a HELLO that passes the checks                    introduced
opened      a HELLO that does not pass, or another message    closed
opened      10 seconds without a HELLO                        closed
introduced  any message but a HELLO                           introduced
introduced  a second HELLO                                    closed
introduced  a better connection between the same two nodes    closed
introduced  a PROBE without its PROBED, and nothing flows     closed
introduced  the cluster removes the other node                closed
==========  ================================================  ==========

Two nodes may dial each other at once. Then both keep the connection that the node with the lower id dialled. If the
same node dialled twice, both keep the newer connection.

The life of a space on a connection
-----------------------------------

A node introduces a space with its HELLO or with a WANT, and only to a peer that may hold the space.

==========  ====================================================================  ================================
state       event                                                                 next
==========  ====================================================================  ================================
unknown     this node introduces the space                                        introduced
unknown     the peer introduces the space with WANT: this node does so too        syncing
introduced  the peer introduces the space, with the same epoch                    syncing
introduced  the peer introduces the space, with another epoch                     introduced
syncing     CHANGES, ACK                                                          syncing
syncing     WANT: start over from the frontier in it                              syncing
syncing     the peer lacks what the log no longer holds: this node sends OFFER    offered
syncing     TAKE without an OFFER: the peer lacks a text, or compares             offered
offered     TAKE: this node sends PART after PART, as far as credit goes          offered
offered     the last PART is sent, or the peer has got on some other way          syncing
syncing     a fork that both can heal: they exchange CHAIN                        syncing
syncing     a fork that cannot be healed: this node sends STOP, or the peer does  stopped
any         the space is dropped, made anew, or no longer for this peer           unknown
==========  ====================================================================  ================================

In every state but *syncing* and *offered*, a node ignores CHANGES and PART of the space. A stopped space stays stopped
until the connection ends.

Order
-----

The messages of one connection arrive in the order in which they were sent. Changes may come over any connection, in
any order, and more than once: the receiver applies a change only after the changes that it depends on.

The body bytes in CHANGES and the data bytes in PART need credit. So many of them may be sent beyond the count that the
last ACK names, and no more. The other messages need no credit.

What a node checks
------------------

A peer may be broken or hostile. So a node checks the bounds of every field, and closes the connection with a reason:

- if a message is longer than 8 MiB, has over 400,000 items, is no msgpack array, or has a field out of its bounds
- if the peer sends a text message, or breaks the websocket protocol
- if the HELLO names this node itself, another cluster, an older protocol, or another node than the one whose key the
  connection has proven
- if the HELLO is of a new node, and this node knows 10,000 others already
- if a change in CHANGES is malformed
- if an ACK acknowledges more bytes than were sent, or more writers than a space can have
- if a PART was not asked for

A node trusts no change because of who sent it: each change names the hash of the one before it. If two changes have
the same writer and number and different hashes, the node raises the alarm ``fork``. The two find with CHAIN where the
chains part, and the one that holds the branch with the higher hash gives it new names. Where that cannot be done, the
node sends STOP; the connection stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Final

from crdtsync.errors import InvalidEncoding
from crdtsync.wire.codec import check_items, unpack
from crdtsync.wire.limits import MESSAGE_ITEMS_MAX, PEER_FRAME_BYTES_MAX
from crdtsync.wire.peer import changes, comparing, gossip, hello, meshing, probes, transfer, values, votes
from crdtsync.wire.peer.base import ENTERED, Message
from crdtsync.wire.peer.snapshot import DEFLATE

SUBJECTS: Final[tuple[ModuleType, ...]] = (
    hello,
    changes,
    transfer,
    probes,
    meshing,
    comparing,
    values,
    gossip,
    votes,
)
"""The modules whose classes are the messages, in the order of the reference page."""

MESSAGES: Final[Mapping[int, type[Message]]] = MappingProxyType(dict(sorted(ENTERED.items())))
"""Every message by its type, in order of type."""

FEATURES: Final = (*dict.fromkeys(cls.FEATURE for cls in MESSAGES.values() if cls.FEATURE), DEFLATE)
"""The features of a node of this version."""

_NAMES: Final = {number: cls.__name__.upper() for number, cls in MESSAGES.items()}
_DECODERS: Final = {number: cls.decode for number, cls in MESSAGES.items()}


def type_of(data: bytes) -> int:
    """The type of an encoded message."""
    return data[1]  # after the array's own first byte: none of these has over 15 elements


def message_name(data: bytes) -> str:
    """The name of an encoded message, of which this is the beginning at least; ``?`` if it is none that is known."""
    found = _NAMES.get(data[1]) if len(data) > 1 else None
    return "?" if found is None else found


def decode_message(data: bytes) -> Message | None:
    """The message; None if it is of a type that only newer versions know.

    :raises InvalidEncoding: not a message that any correct node could have sent.
    """
    if len(data) > PEER_FRAME_BYTES_MAX:
        raise InvalidEncoding(f"a peer message of {len(data):,} bytes is over the limit of {PEER_FRAME_BYTES_MAX:,}")
    check_items(data, MESSAGE_ITEMS_MAX)
    plain = unpack(data)
    try:
        decoder = _DECODERS.get(plain[0])
        return None if decoder is None else decoder(plain)
    except ValueError as error:
        raise InvalidEncoding(f"malformed peer message: {error}") from None
    except (TypeError, LookupError, AttributeError):
        raise InvalidEncoding("malformed peer message: a part is missing, or of another type than it must be") from None
