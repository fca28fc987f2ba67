"""A node with an invite in its settings says why it has not joined, and goes on trying where that can help."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from crdtsyncd.cluster import join_at_start
from crdtsyncd.cluster.join_at_start import JoinAtStart, tell_left

from crdtsync.core.alarm_catalogue import NOT_ALL_MERGED, NOT_JOINED
from crdtsync.core.interface import HostAlarm
from crdtsync.errors import CrdtSyncError, DaemonUnavailable, Refused
from crdtsync.wire.invites import Invite, encode_invite

NODE = "the inviting node cannot be reached"


def invite(expires_ms: int) -> str:
    return encode_invite(Invite(b"c" * 16, b"p" * 32, b"i" * 12, b"s" * 24, expires_ms, ("host-a:7420",)))


class Stage:
    """A node that waits to join. ``answers``: what becomes of each attempt; ``holds``: what it holds before each."""

    def __init__(self, *answers: CrdtSyncError | None, holds: Any = (), mode: str = "refuse", left_ms: int = 60_000):
        self.answers = list(answers)
        self.holds = list(holds)
        self.told: list[str] = []
        self.asked = 0
        self.config: Any = SimpleNamespace(
            join=invite(int(time.time() * 1000) + left_ms), join_data=mode, socket="/nowhere", data_dir=None
        )
        self.joins = JoinAtStart(self.config, self, self.join)  # type: ignore[arg-type]

    def refuses_to_join(self, _invite: Invite) -> str | None:
        return self.holds.pop(0) if self.holds else None

    def feed(self, event: HostAlarm) -> None:
        assert event.alarm is NOT_JOINED
        self.told.append(event.message.removeprefix("this node has not joined by its invite: "))

    async def join(self, _invite: Invite) -> None:
        self.asked += 1
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer

    async def run(self) -> list[str]:
        await asyncio.wait_for(self.joins.run(), 10)
        return self.told


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_at_start, "RETRY_S", 0.0)


async def test_who_cannot_be_reached_is_asked_again_and_the_alarm_goes() -> None:
    stage = Stage(DaemonUnavailable(NODE), DaemonUnavailable(NODE), None)
    assert await stage.run() == [NODE, ""]


async def test_data_that_came_meanwhile_does_not_end_it() -> None:
    stage = Stage(None, holds=["this node holds data", "this node holds data", None])
    first, cleared = await stage.run()
    assert "this node holds data" in first
    assert "--merge" in first
    assert "join_data" in first
    assert cleared == ""
    assert stage.asked == 1


async def test_with_archive_data_is_no_hindrance() -> None:
    stage = Stage(None, holds=["this node holds data"], mode="archive")
    assert await stage.run() == []
    assert stage.asked == 1


@pytest.mark.parametrize("code", ["invite_expired", "invite_used", "invite_unknown", "wrong_pin", "removed"])
async def test_what_cannot_become_better_is_told_once_and_stays(code: str) -> None:
    assert await Stage(Refused("no", code)).run() == ["no"]


@pytest.mark.parametrize("code", ["name_taken", "no_space", "closed"])
async def test_what_somebody_may_mend_elsewhere_is_tried_again(code: str) -> None:
    assert await Stage(Refused("not now", code), None).run() == ["not now", ""]


async def test_an_invite_that_expires_while_nobody_answers_is_told_so() -> None:
    first, _ = await Stage(DaemonUnavailable(NODE), None, left_ms=-1000).run()
    assert first.startswith(NODE)
    assert "expired" in first


async def test_a_member_is_left_alone() -> None:
    stage = Stage(holds=[""])
    assert await stage.run() == []
    assert stage.asked == 0


@pytest.mark.parametrize(
    "said,told",
    [
        ({"code": "not_all_merged", "message": "team is in /x"}, [""]),
        ({"code": "invite_used", "message": "used already"}, ["used already"]),
    ],
)
async def test_merging_is_done_by_the_command_and_judged_by_its_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, said: dict[str, str], told: list[str]
) -> None:
    stage = Stage(holds=["this node holds data"], mode="merge")
    stage.config.data_dir = tmp_path
    seen: dict[str, Any] = {}

    async def start(*command: str, **options: Any) -> Any:
        async def communicate(stdin: bytes) -> tuple[bytes, bytes]:
            seen.update(command=command, stdin=stdin, env=options["env"])
            return b"", b"crdtsync: a warning\n" + json.dumps({"error": said}).encode() + b"\n"

        return SimpleNamespace(communicate=communicate, returncode=4)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    assert await stage.run() == [each for each in told if each]
    assert seen["command"][-4:] == ("cluster", "join", "-", "--merge")
    assert seen["stdin"].decode() == stage.config.join  # and not in its arguments, which all may see
    assert seen["env"]["TMPDIR"] == str(tmp_path)


def test_what_a_join_left_behind_is_told_until_it_is_gone(tmp_path: Any) -> None:
    told: list[HostAlarm] = []
    config: Any = SimpleNamespace(data_dir=tmp_path)
    driver: Any = SimpleNamespace(feed=told.append)
    place = tmp_path / "crdtsync-merge-x"
    place.mkdir()
    tell_left(config, driver)
    place.rmdir()
    tell_left(config, driver)
    assert [event.alarm for event in told] == [NOT_ALL_MERGED, NOT_ALL_MERGED]
    assert told[0].message.endswith(f"the rest is in {place}")
    assert told[1].message == ""
