"""Programs from npm that a test is run against; a test that cannot have them is skipped, and says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def installed(variable: str, place: Path, packages: list[str], wanted: list[str]) -> Path:
    """Where ``packages`` are: in the folder that ``variable`` names, or newly in ``place``.

    Skips the test if npm does not bring the files ``wanted``.
    """
    given = os.environ.get(variable)
    if given:
        return Path(given)
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"npm is not installed: {' '.join(packages)} NOT tested")
    command = [npm, "install", "--ignore-scripts", "--silent", "--no-audit", "--prefix", str(place), *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not answer in 90 s: {' '.join(packages)} NOT tested")
    if not all((place / file).exists() for file in wanted):
        pytest.skip(f"npm did not bring {' '.join(packages)}, NOT tested: {done.stderr[-300:]}")
    return place
