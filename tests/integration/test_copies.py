"""Two daemons that run from copies of one data directory are told apart from a node that reconnects."""

import shutil

import pytest

from tests.harness import wait_until
from tests.harness.daemon import CHANGED, PROGRAM

pytestmark = pytest.mark.integration
SOON = f"""{CHANGED}
from crdtsync.core.peers import connections
connections.COPIES_REPLACEMENTS_MIN = 3
{PROGRAM}
"""
"""Instead of 10: the two replace each other about once a second."""


def test_two_daemons_of_one_identity_raise_an_alarm(make_daemon):
    hub = make_daemon(program=SOON)
    original = make_daemon(peers=[hub.url])
    wait_until(lambda: any(peer["state"] == "connected" for peer in hub.status()["peers"]))
    original.stop()
    copy = make_daemon(start=False, peers=[hub.url])
    shutil.copytree(original.data, copy.data)
    original.start()
    copy.start()
    wait_until(
        lambda: any("two daemons seem to run" in alarm["message"] for alarm in hub.status()["alarms"]), timeout_s=60
    )
