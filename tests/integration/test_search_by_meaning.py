"""Search by meaning, in an environment that has the vectors."""

from __future__ import annotations

import pytest

from crdtsync.context import Search
from crdtsync.context.extras import MissingPackage
from tests.harness import Daemon
from tests.harness.frameworks import passes

pytestmark = pytest.mark.integration


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_says_it_in_other_words_is_found(daemon: Daemon) -> None:
    passes("meaning", "by_meaning.py", SOCKET=daemon.socket)


def test_without_the_vectors_it_says_what_to_install(daemon: Daemon, tmp_path) -> None:
    client = daemon.client("ann")
    client.set("a", "a text")
    with pytest.raises(MissingPackage, match=r"crdtsync\[meaning\]"):
        Search(client, folder=tmp_path, meaning=True).search("text")
