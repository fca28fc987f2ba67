"""A node of this version beside one of the previous release: what that one does not know is told, and nothing is lost.

The release is the one that its page under docs/releases names, out of the history of this checkout.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from crdtsyncd.doctor.running_daemon import examine_status

from tests.harness import Daemon, wait_until
from tests.harness.daemon import PROGRAM
from tests.integration.test_upgrade import ROOT, has_commit, release

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not has_commit(), reason="the history of this checkout does not reach back to the release"),
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The sources of the release."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", release()[1]], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(tmp_path), "crdtsync", "daemon"], input=packed, check=True)
    return tmp_path


def are_equal(one: Daemon, other: Daemon) -> bool:
    return all(one.space()[name] == other.space()[name] for name in ("version_vector", "digest"))


def test_checkpoints_blobs_restores_and_forks_beside_the_previous_release(source: Path) -> None:
    program = f"import sys; sys.path[:0] = [{str(source)!r}, {str(source / 'daemon')!r}]; {PROGRAM}"
    old, new = Daemon("old", start=False, program=program), Daemon("new", start=False)
    del old.settings["ballast_bytes"]
    old.settings["peers"], new.settings["peers"] = [new.url], [old.url]
    with old, new:
        old.start()
        new.start()
        there, here = old.client("ann"), new.client("bob")
        there.set("plan", 1)
        wait_until(lambda: here.get("plan") == 1, what="the change of the release is here")
        assert "hops" not in old.status()["peers"][0], "it is the release that runs"
        here.put_blob("blob", b"x" * 700_000)
        here.checkpoint("before")
        here.set("plan", 2)
        here.delete("blob")
        here.fork("trial", at="checkpoint:before")
        here.session(space="trial").set("plan", 3)
        here.restore("before")
        here.merge_space("trial")
        there.set("theirs", 1)
        wait_until(lambda: here.get("theirs") == 1 and are_equal(old, new), what="both hold the same")
        assert there.get("plan") == here.get("plan")
        assert old.alarms() == new.alarms() == []
        (told,) = [one.message for one in examine_status(new.status()) if "older version" in one.message]
        assert "it keeps nothing for checkpoints and lists the parts of blobs as keys" in told

        old.stop()
        here.set("meanwhile", 1)
        old.program = PROGRAM  # it is upgraded
        old.start()
        wait_until(lambda: are_equal(old, new), what="both hold the same again")
        for state in (here, old.client("ann")):
            blob = state.get_blob("blob")
            assert blob is not None
            assert blob.read() == b"x" * 700_000
            assert state.get("meanwhile") == 1
            assert state.verify_checkpoint("before").damaged == {}
        assert not [one for one in examine_status(new.status()) if "older version" in one.message]
