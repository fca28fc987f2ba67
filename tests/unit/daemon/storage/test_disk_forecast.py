"""A disk is spoken of before writes are refused."""

from __future__ import annotations

import os
from pathlib import Path

from crdtsyncd.storage.disk_guard import FORECAST_H, NEAR_RESERVES, DiskGuard


def free_bytes(place: Path) -> int:
    usage = os.statvfs(place)
    return usage.f_bavail * usage.f_frsize


def test_a_disk_with_room_is_not_spoken_of(tmp_path):
    guard = DiskGuard(tmp_path, 0, 1024)
    assert guard.forecast(None) == ""
    assert guard.forecast(1) == ""
    assert guard.forecast(-(10**12)) == ""


def test_a_disk_that_is_full_within_a_day_is(tmp_path):
    said = DiskGuard(tmp_path, 0, 1024).forecast(free_bytes(tmp_path) * 2 // FORECAST_H)
    assert "full in 12 h" in said


def test_a_disk_that_nears_the_reserve_is_and_one_below_it_is_left_to_the_refusal(tmp_path):
    near = DiskGuard(tmp_path, 0, free_bytes(tmp_path) // (NEAR_RESERVES - 1))
    assert "before writes are refused" in near.forecast(None)
    assert DiskGuard(tmp_path, 0, 2 * free_bytes(tmp_path)).forecast(None) == ""
