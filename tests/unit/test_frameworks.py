"""What the tests of adapters do where the registry does not bring a framework."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harness.frameworks import fetch

FAILS_TWICE = """
import pathlib, sys
tries = pathlib.Path(sys.argv[1])
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
sys.exit("no route to the registry" if len(tries.read_text()) < 3 else 0)
"""


@pytest.fixture
def twice(tmp_path: Path) -> list[str]:
    """A command that succeeds when it is run for the third time."""
    return [sys.executable, "-c", FAILS_TWICE, str(tmp_path / "tries")]


@pytest.mark.parametrize("ci", ["true", ""])
def test_a_registry_that_fails_is_asked_again(twice: list[str], ci: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", ci)
    fetch("ours", twice, pauses_s=(0, 0))


def test_in_ci_an_adapter_that_goes_untested_is_a_failure(twice: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="ours is NOT tested: no route to the registry"):
        fetch("ours", twice, pauses_s=(0,))


def test_elsewhere_its_tests_are_skipped_with_the_reason(twice: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="ours is NOT tested: no route to the registry"):
        fetch("ours", twice, pauses_s=(0,))
