"""Each message of a peer at its worst, for a minute: the daemon's memory stays bounded."""

from __future__ import annotations

import pytest

from crdtsync.wire.peer.base import Message
from tests.harness import Daemon
from tests.harness.worst import Maker
from tests.integration.test_memory import CASES, MIB, grows_little, say_the_worst
from tests.integration.witness import undisturbed

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("kind,make", CASES, ids=[f"{kind.__name__}-{at}" for at, (kind, _) in enumerate(CASES)])
def test_no_message_takes_much_memory_for_a_minute(kind: type[Message], make: Maker) -> None:
    with Daemon() as daemon, undisturbed(daemon) as witness, grows_little(daemon):
        say_the_worst(daemon, kind, make, 60.0, 1024 * MIB)
        witness.works()
