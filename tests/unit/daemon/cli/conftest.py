"""Running the command line inside this process, with no daemon anywhere near."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from crdtsyncd.cli.app import run


class Result(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def crdtsync(capfd, monkeypatch, tmp_path):
    """Call ``crdtsync`` with these arguments: its exit status and what it printed."""
    monkeypatch.setenv("CRDTSYNC_SOCKET", str(tmp_path / "none"))

    def call(*arguments):
        status = run(arguments)
        return Result(status, *capfd.readouterr())

    return call
