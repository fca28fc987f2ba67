"""The example in the tour of the core runs as it stands there."""

from __future__ import annotations

from pathlib import Path
from random import Random
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

from crdtsyncd.storage.database import Store

import crdtsync.core
from crdtsync.core.identity import LOOPBACK_CLUSTER, Identity
from crdtsync.core.interface import AgentFrame, AgentOpened, Now, PeerFrame, PeerOpened
from crdtsync.core.node import Node
from crdtsync.wire.codec import pack, unpack
from tests.fleet.clock import START_MS

NOW = Now(START_MS, 1000.0)


def example() -> str:
    """The code of the one example: what is indented behind the first ``::``."""
    lines = (crdtsync.core.__doc__ or "").partition("::\n")[2].splitlines()
    return dedent(
        "\n".join(line for line in lines[: lines.index("Modules here:")] if line.startswith("    ") or not line)
    )


def test_the_write_on_one_node_arrives_at_the_other(tmp_path: Path):
    stores: list[Store] = []

    def host(name: str) -> SimpleNamespace:
        (tmp_path / name).mkdir()
        storage = Store(tmp_path / name, tmp_path / name)
        stores.append(storage)
        identity = Identity(storage.node, name, LOOPBACK_CLUSTER, storage.database, "0")
        return SimpleNamespace(node=Node(identity, storage, Random(1), lambda *_, **__: None, NOW), storage=storage)

    scope: dict[str, Any] = {
        "AgentFrame": AgentFrame, "AgentOpened": AgentOpened, "PeerFrame": PeerFrame, "PeerOpened": PeerOpened,
        "host": host, "now": NOW, "pack": pack,
    }  # fmt: skip
    try:
        exec(example(), scope)
        entry = next(iter(scope["b"].node.replicas["default"].entries.all()))
        assert (entry.key, unpack(entry.value)) == ("plan", "ship")
    finally:
        for store in stores:
            store.close()


def test_the_example_checks_that_it_arrived():
    assert example().rstrip().splitlines()[-1].startswith("assert ")
