"""Probes: whether a peer still gets anywhere, however its sockets look.

For example, the process on host-b is frozen. Its kernel still takes bytes, so the connection stands. Host-a sends PROBE
5 and hears no PROBED 5; after a while host-a closes the connection and dials anew.
"""

from __future__ import annotations

from crdtsync.wire.peer.base import Message, message
from crdtsync.wire.peer.fields import Count

PROBES = "probes"
"""The feature of a node that answers probes."""


@message
class Probe(Message):
    """Ask whether the receiver gets anywhere.

    ``[11, number]``

    The receiver answers with PROBED from its next turn, and so from where it applies changes.

    :param number: the answer repeats this number
    """

    TYPE = 11
    FEATURE = PROBES

    number: Count


@message
class Probed(Message):
    """Answer a PROBE, and say what time it is here.

    ``[12, number, time_ms]``

    :param number: that of the probe
    :param time_ms: in ms since 1970
    """

    TYPE = 12
    FEATURE = PROBES

    number: Count
    time_ms: Count
