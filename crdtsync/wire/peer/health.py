"""How a node is: what its operator would see there, told to the others.

For example, the disk of host-b is full. Host-b tells its peers so, and whoever looks at ``crdtsync cluster status`` on
host-a sees it there, with the versions and alarms of all others.
"""

from __future__ import annotations

from typing import Annotated

from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import Count, NodeId, Several, Text

HEALTH = "health"
"""The feature of a node that tells how it is."""
ALARMS_TOLD_MAX = 32


class ToldAlarm(NamedTuple):
    """An alarm that is raised there. Its message stays there: it may name what not every member may know.

    :param code: the code of the alarm
    :param since_ms: since when, in ms since 1970
    """

    code: Text
    since_ms: Count


@message
class Health(Message):
    """Say how a node is, in place of what was said of it before.

    ``[22, node, told_ms, version, state, data_bytes, free_bytes, [[code, since_ms], …]]``

    The node is the sender itself, or one that the sender hears of and the receiver is not connected to. If two messages
    are about one node, the one that was made later counts.

    :param node: the node that this is about
    :param told_ms: when that node made this, by its own clock, in ms since 1970
    :param version: the version that it runs
    :param state: ``ready``; ``read-only``: its disk is full
    :param data_bytes: about how much its database takes
    :param free_bytes: about how much is free on its disk
    :param alarms: what is raised there, once for each code
    """

    TYPE = 22
    FEATURE = HEALTH

    node: NodeId
    told_ms: Count
    version: Text
    state: Text
    data_bytes: Count = 0
    free_bytes: Count = 0
    alarms: Annotated[tuple[ToldAlarm, ...], Several(ALARMS_TOLD_MAX)] = ()
