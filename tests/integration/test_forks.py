"""Forks on real daemons: a copy to try something in, merged on another host, and nothing overwritten unseen."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from crdtsync.client import AsyncClient, Client
from crdtsync.client.aio.client import AsyncSession
from crdtsync.client.aio.methods.forks import AsyncCarrying
from crdtsync.client.blocking.methods.keys import KeyMethods
from crdtsync.client.blocking.text import Text
from crdtsync.client.operations import forks
from crdtsync.client.operations.batch import Batch
from crdtsync.errors import InvalidRequest, VersionMismatch
from tests.harness import Cluster, Daemon, wait_until, wait_until_equal
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration


def fill(state: Client) -> None:
    """Something of every kind."""
    state.set("plan", 1, meta={"by": "ann"}, confidence=0.5)
    state.set("kept", "x")
    state.set("dropped", 1)
    for element in ("a", "b"):
        state.append("log", element)
        state.add("set", element)
    state.incr("count", 5)
    state.merge("map", {"f": 1, "g": 2})
    state.text("text").set("hello world")
    state.put_blob("blob", b"x" * 600_000)


def change(fork: Client) -> None:
    fork.get("plan")
    fork.set("plan", 2)
    fork.delete("dropped")
    fork.append("log", "c")
    fork.remove("log", fork.log_items("log")[0].dot)
    fork.incr("count", 3)
    fork.discard("set", "a")
    fork.add("set", "c")
    fork.drop("map", "g")
    fork.merge("map", {"f": 10, "h": 3})
    fork.text("text").set("hello brave world")
    fork.put_blob("blob", b"y")


def test_what_a_fork_has_changed_comes_back_once_and_overwrites_nothing_unseen(pair: Cluster) -> None:
    first, second = pair[0].client("ann"), pair[1].client("bob")
    fill(first)
    before = dict(first.items())
    token = first.fork("trial")
    fork = second.session(space="trial")
    wait_until(lambda: "trial" in [each.name for each in second.spaces() if each.here], what="the fork is there")
    second.wait(token)
    shown = dict(fork.items())
    assert {**shown, "blob": None} == {**before, "blob": None}
    assert (fork.entry("plan").meta, fork.entry("plan").confidence) == ({"by": "ann"}, 0.5)  # type: ignore[union-attr]
    change(fork)  # type: ignore[arg-type]
    second.wait(first.now())
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    first.get("plan")
    first.set("plan", 3)
    first.append("log", "here")
    first.incr("count")
    foreseen = second.merge_space("trial", dry_run=True)
    assert second.get("plan") == 1
    merged = second.merge_space("trial")
    assert (merged.written, merged.removed, merged.left) == (foreseen.written, ["dropped"], {})
    assert merged.written == ["blob", "count", "log", "map", "plan", "set", "text"]
    pair.heal()
    wait_until_equal(pair)
    for state in (first, second):
        entry = state.entry("plan")
        assert entry is not None
        assert sorted([entry.value, *(one.value for one in entry.siblings)]) == [2, 3]
        assert (state.get("dropped"), state.get("kept")) == (None, "x")
        assert (sorted(state.log("log")), state.members("set")) == (["b", "c", "here"], ["b", "c"])
        assert (state.get("count"), state.get("map")) == (9, {"f": 10, "h": 3})
        assert state.text("text").read() == "hello brave world"
        blob = state.get_blob("blob")
        assert blob is not None
        assert (blob.read(), blob.entry.siblings) == (b"y", [])
    for state in (first, second):  # also on the other host
        again = state.merge_space("trial")
        assert (again.written, again.removed, again.left) == ([], [], {})
    fork.append("log", "d")
    fork.incr("count", -1)
    fork.set("plan", 22)
    fork.put_blob("blob", b"z")
    assert second.merge_space("trial").written == ["blob", "count", "log", "plan"]
    entry, blob = second.entry("plan"), second.get_blob("blob")
    assert entry is not None
    assert blob is not None
    assert sorted([entry.value, *(one.value for one in entry.siblings)]) == [3, 22]  # what it wrote before is replaced
    assert (sorted(second.log("log")), second.get("count")) == (["b", "c", "d", "here"], 8)
    assert (blob.read(), blob.entry.siblings) == (b"z", [])


def test_a_merge_that_forgets_how_far_it_has_come_counts_twice(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test before: what it looks for is there if nothing is noted."""
    with daemon.client("ann") as state:
        fill(state)
        state.fork("trial")
        change(state.session(space="trial"))  # type: ignore[arg-type]
        merge = Batch.merge

        def note_nothing(batch: Batch, key: str, *args: Any, **options: Any) -> None:
            if not key.startswith("forks/"):
                merge(batch, key, *args, **options)

        monkeypatch.setattr(Batch, "merge", note_nothing)
        for _ in range(2):
            state.merge_space("trial")
        assert state.log("log") == ["b", "c", "c"]
        assert state.get("count") == 8  # which needs no note


def test_a_merge_with_nothing_to_do_reads_in_pages(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon.client("ann") as state:
        state.fork("trial")
        fork = state.session(space="trial")
        with fork.batch() as batch:
            for number in range(100):
                batch.incr(f"count/{number:02}")
        assert len(state.merge_space("trial").written) == 100
        fork.incr("count/07")
        assert state.merge_space("trial").written == ["count/07"]
        entry, read = KeyMethods.entry, []

        def count(session: Any, key: str, **options: Any) -> Any:
            read.append(key)
            return entry(session, key, **options)

        monkeypatch.setattr(KeyMethods, "entry", count)
        assert state.merge_space("trial").written == []
        assert read == ["count/07"]
        assert (state.get("count/07"), state.get("count/08")) == (2, 1)


async def test_merges_of_one_fork_at_once_count_once_and_all_end(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="ann") as state, AsyncClient(daemon.socket, agent="bob") as other:
        await state.fork("trial")
        fork = state.session(space="trial")
        for _ in range(2):
            for number in range(30):
                await fork.incr(f"count/{number}")
                await fork.append("log", number)
        with patch.object(forks, "OPERATIONS_MAX", 5):
            merged = await asyncio.gather(*(each.merge_space("trial") for each in (state, other, state, other)))
        assert {key for each in merged for key in each.written} == {"log", *(f"count/{n}" for n in range(30))}
        assert {await state.get(f"count/{number}") for number in range(30)} == {2}
        assert Counter(await state.log("log")) == dict.fromkeys(range(30), 2)


async def test_a_merge_that_comes_right_after_a_change_of_another_counts_once(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="ann") as state, AsyncClient(daemon.socket, agent="bob") as other:
        await state.fork("trial")
        for number in range(30):
            await state.session(space="trial").incr(f"count/{number}")
        begin = AsyncCarrying.begin
        met: list[bool] = []

        async def meet(carrying: AsyncCarrying) -> None:
            if carrying.token is not None and not met:
                met.append(True)
                await other.merge_space("trial")
            await begin(carrying)

        with patch.object(forks, "OPERATIONS_MAX", 5), patch.object(AsyncCarrying, "begin", meet):
            await state.merge_space("trial")
        assert met
        assert [await state.get(f"count/{number}") for number in range(30)] == [1] * 30


def test_the_deletion_of_what_has_become_too_long_to_be_read_at_once_is_merged(daemon: Daemon) -> None:
    with daemon.client("ann") as state:
        state.merge("map", {"old": "x" * 900_000, "other": "x" * 900_000})
        state.fork("trial")
        for number in range(10):
            state.merge("map", {str(number): "x" * 500_000})
        state.session(space="trial").delete("map")
        merged = state.merge_space("trial")
        assert (merged.removed, merged.left) == ([], {"map": forks.STAYS})
        assert sorted(field.name for field in state.fields("map")) == [str(number) for number in range(10)]


def test_what_several_merges_brought_is_the_forks_to_change(daemon: Daemon) -> None:
    """A note told of the newest merge alone, so what an earlier one had brought counted as changed here."""
    with daemon.client("ann") as state:
        state.fork("trial")
        fork = state.session(space="trial")
        for name in ("a", "b", "c"):
            for key in ("map", "gone"):
                fork.merge(key, {name: 1})
            for key in ("log", "many"):
                fork.append(key, name)
            fork.add("set", name)
            fork.incr("count")
            assert not state.merge_space("trial").left
        state.append("many", "here")
        fork.merge("map", {"a": 2})
        fork.discard("set", "a")
        for key in ("gone", "log", "count", "many"):
            fork.delete(key)
        merged = state.merge_space("trial")
        assert (merged.written, merged.removed) == (["map", "set"], ["count", "gone", "log"])
        assert merged.left == {"many": forks.STAYS}
        assert state.get("map") == {"a": 2, "b": 1, "c": 1}
        assert not [entry.key for entry in state.conflicts()]
        assert state.members("set") == ["b", "c"]
        assert state.log("many") == ["here"]
        assert [key for key in ("gone", "log", "count") if state.get(key) is not None] == []


def test_a_name_of_a_fork_that_was_dropped_is_used_again(daemon: Daemon) -> None:
    with daemon.client("ann") as state:
        for number in range(1, 3):
            state.fork("trial")
            state.session(space="trial").incr("count")
            assert state.merge_space("trial").written == ["count"]
            assert state.get("count") == number
            assert state.merge_space("trial").written == []
            state.drop_space("trial")
            state.delete_checkpoint("fork-trial")


async def test_a_merge_that_always_meets_another_ends_and_says_so(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncClient(daemon.socket, agent="ann") as state:
        await state.fork("trial")
        await state.session(space="trial").incr("count")
        now = AsyncClient.now

        async def note_and_tell(session: Any, **options: Any) -> Any:
            await state.merge("forks/trial", {"other": {"at": None, "seen": None}}, seen=None)
            return await now(session, **options)

        monkeypatch.setattr(AsyncSession, "now", note_and_tell)
        with pytest.raises(VersionMismatch, match="others merge trial all the time"):
            await state.merge_space("trial")
        monkeypatch.undo()
        assert await state.get("count") is None
        assert (await state.merge_space("trial")).written == ["count"]


def marked(state: Any) -> str:
    """The text of the tests that follow: each of its words was typed once."""
    content: str = state.text("text").read()
    assert max(Counter(content.split()).values()) == 1, content
    return content


def test_what_hosts_that_are_cut_off_merge_stands_once_in_texts_and_sets_alone(pair: Cluster) -> None:
    first, second = pair[0].client("ann"), pair[1].client("bob")
    first.text("text").set("one two three")
    first.doc("doc").set("a", 1)
    token = first.fork("trial")
    wait_until(lambda: "trial" in [each.name for each in second.spaces() if each.here], what="the fork is there")
    second.wait(token)
    forks = [state.session(space="trial") for state in (first, second)]
    forks[0].text("text").set("one FORK two three")
    forks[0].doc("doc").set("b", 2)
    forks[0].text("new").set("new")
    forks[0].incr("count", 3)
    forks[0].append("log", "x")
    forks[0].add("set", "x")
    forks[0].set("plan", 1)
    second.wait(first.now())
    second.wait(forks[0].now())
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for state in (first, second):
        word = "ANN" if state is first else "BOB"
        state.text("text").set(f"{word} one two three" if state is first else f"one two three {word}")
        state.doc("doc").set(word, True)
        foreseen = state.merge_space("trial", dry_run=True)
        merged = state.merge_space("trial")
        assert (
            (merged.written, merged.left)
            == (foreseen.written, {})
            == (
                ["count", "doc", "log", "new", "plan", "set", "text"],
                {},
            )
        )
    forks[1].text("text").set("one FORK two")  # on one of them it goes on, and is merged again
    second.merge_space("trial")
    pair.heal()
    wait_until_equal(pair)
    for state in (first, second):
        assert marked(state) == "ANN one FORK two BOB"
        assert state.doc("doc").get("") == {"a": 1, "b": 2, "ANN": True, "BOB": True}
        new = state.entry("new")
        assert new is not None
        assert [new.value, *(one.value for one in new.siblings)] == ["new", "new"]
        assert (state.members("set"), state.get("count"), state.log("log")) == (["x"], 3, ["x", "x"])
        plan = state.entry("plan")
        assert plan is not None
        assert [plan.value, *(one.value for one in plan.siblings)] == [1, 1]
        assert "forks/trial" in [entry.key for entry in state.conflicts()]
    second.text("text").compact()
    forks[1].text("text").set("one FORK AGAIN two")
    forks[1].doc("doc").set("b", 3)
    forks[1].text("new").set("newer")
    forks[1].incr("count")
    forks[1].append("log", "y")
    forks[1].add("set", "y")
    forks[1].set("plan", 2)
    for state in (second, first, second):  # an edit of the document before
        state.merge_space("trial")
        wait_until_equal(pair)
        assert marked(state) == "ANN one FORK AGAIN two BOB"
        assert "forks/trial" not in [entry.key for entry in state.conflicts()]
        assert state.get("count") == 4


def test_what_was_counted_on_both_sides_of_a_cut_counts_once_whatever_each_has_merged(pair: Cluster) -> None:
    first, second = pair[0].client("ann"), pair[1].client("bob")
    first.incr("count", 5)
    token = first.fork("trial")
    wait_until(lambda: "trial" in [each.name for each in second.spaces() if each.here], what="the fork is there")
    second.wait(token)
    forks = [state.session(space="trial") for state in (first, second)]
    forks[0].incr("count", 10)
    second.wait(forks[0].now())
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    first.merge_space("trial")
    forks[0].incr("count", 100)
    first.merge_space("trial")
    second.incr("count", 1000)
    forks[1].incr("count", -3)
    second.merge_space("trial")
    assert (first.get("count"), second.get("count")) == (115, 1012)
    pair.heal()
    wait_until_equal(pair)
    for state in (first, second):
        assert state.get("count") == 1112
        assert state.merge_space("trial").left == {}
        assert state.get("count") == 1112
        wait_until_equal(pair)
    forks[0].reset("count")
    forks[0].incr("count")
    assert (first.merge_space("trial").written, first.get("count")) == (["count"], 1001)
    forks[0].delete("count")
    forks[0].incr("count", 7)
    assert (first.merge_space("trial").written, first.get("count")) == (["count"], 1007)


def test_what_a_counter_of_a_fork_had_before_it_was_deleted_here_does_not_come_back(daemon: Daemon) -> None:
    with daemon.client("ann") as state:
        state.fork("trial")
        fork = state.session(space="trial")
        for by in (5, 1, 2):
            fork.incr("count", by)
            assert state.merge_space("trial").written == ["count"]
            assert state.get("count") == by
            state.delete("count")
        fork.delete("count")
        state.merge_space("trial")
        fork.incr("count", 3)
        fork.incr("new", 0)
        assert state.merge_space("trial").written == ["count", "new"]
        assert (state.get("count"), state.get("new")) == (3, 0)


def test_a_merge_goes_on_after_those_of_a_version_that_added_up(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon.client("ann") as state:
        state.incr("count", 5)
        state.fork("trial")
        fork = state.session(space="trial")
        carry, merge = forks.carry, Batch.merge

        def note_less(batch: Batch, key: str, fields: dict[str, Any], **options: Any) -> None:
            for field in fields.values():
                field.pop("from", None)
            merge(batch, key, fields, **options)

        for is_old in (False, True, True, False, True, False, False):
            with monkeypatch.context() as patched:
                if is_old:
                    patched.setattr(forks, "carry", lambda *args: carry(*args[:6]))
                    patched.setattr(Batch, "merge", note_less)
                fork.incr("count", 10)
                assert state.merge_space("trial").written == ["count"]
            assert state.get("count") == fork.get("count")


def test_texts_that_were_made_anew_on_one_side_are_left_if_both_have_edited_them(daemon: Daemon) -> None:
    with daemon.client("ann") as state:
        state.text("text").set("one " * 50)
        for key in ("again", "gone", "mine"):
            state.text(key).set("one")
        state.fork("trial")
        fork = state.session(space="trial")
        for content in ("two " * 50, "fork one"):
            fork.text("text").set(content)
        assert fork.text("text").compact().document != fork.text("text").document
        fork.delete("again")
        for key in ("again", "gone", "mine"):
            fork.text(key).set("one two")
        state.delete("gone")
        assert state.merge_space("trial").left == {}
        assert [state.text(key).read() for key in ("text", "again", "gone")] == ["fork one", "one two", "one two"]
        state.text("again").set("one two three")
        assert state.text("mine").read() == "one two"
        state.delete("mine")
        state.session().text("mine").set("mine")
        for key in ("again", "text", "mine"):
            fork.text(key).set("one two four")
        for is_dry in (True, False):
            assert [*state.merge_space("trial", dry_run=is_dry).left] == ["again", "mine"]
        assert [state.text(key).read() for key in ("text", "again", "mine")] == [
            "one two four",
            "one two three",
            "mine",
        ]
        fork.delete("gone")
        assert state.merge_space("trial").removed == ["gone"]
        assert state.entry("gone") is None


def test_a_large_text_is_forked_and_merged_in_several_changes(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon.client("ann") as state:
        lines = [f"line {number}\n" for number in range(3000)]
        state.text("text").set("".join(lines))
        state.text("long").set("x" * 2_500_000)
        state.fork("trial")
        fork = state.session(space="trial")
        assert fork.text("long").read() == "x" * 2_500_000
        for start in range(0, 3000, 200):
            for number in range(start, start + 200, 2):
                lines[number] = f"FORK {number}\n"
            fork.text("text").set("".join(lines))
        state.text("text").insert(0, "here\n")
        apply, writes = Text.apply, []

        def apply_and_die(text: Text, update: Any, **options: Any) -> Any:
            writes.append(apply(text, update, **options))
            raise KeyboardInterrupt

        monkeypatch.setattr(Text, "apply", apply_and_die)
        with pytest.raises(KeyboardInterrupt):
            state.merge_space("trial")
        monkeypatch.undo()
        assert len(writes) == 1
        assert state.merge_space("trial").left == {}
        assert state.text("text").read() == "".join(["here\n", *lines])


def test_a_key_of_another_kind_since_the_fork_stops_no_merge(daemon: Daemon) -> None:
    with daemon.client("ann") as state:
        state.set("a", "register")
        state.fork("trial")
        fork = state.session(space="trial")
        fork.delete("a")
        fork.append("a", 1)
        state.merge_space("trial")
        fork.append("a", 2)
        fork.set("b", "behind it")
        merged = state.merge_space("trial")
        assert (merged.left, merged.written) == ({}, ["a", "b"])
        assert (state.log("a"), state.get("b")) == ([1, 2], "behind it")


def test_a_key_that_the_space_refuses_is_left_and_the_others_are_merged(daemon: Daemon) -> None:
    with daemon.client("ann") as state:
        for key in ("a", "b", "c"):
            state.incr(key)
        state.set("plan", 1)
        state.fork("trial")
        fork = state.session(space="trial")
        state.delete("a")
        state.set("a", "register")
        state.schema_set("plan", json_schema={"maximum": 2})
        for key in ("a", "b", "c"):
            fork.incr(key)
        fork.set("plan", 3)
        merged = state.merge_space("trial")
        assert (merged.written, [*merged.left]) == (["b", "c"], ["a", "plan"])
        assert merged.left["a"].startswith("'a' is a register")
        assert [state.get(key) for key in ("a", "b", "c", "plan")] == ["register", 2, 2, 1]
        state.schema_set("plan", json_schema={"maximum": 3})
        state.delete("a")
        assert state.merge_space("trial").written == ["a", "plan"]
        assert [state.get(key) for key in ("a", "b", "c", "plan")] == [1, 2, 2, 3]


async def test_what_cannot_be_forked_or_merged_is_told(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="ann") as state:
        await state.text("text").set("one")
        await state.set("plan/a", 1)
        await state.checkpoint("before")
        await state.set("plan/a", 2)
        with pytest.raises(InvalidRequest, match=r"no checkpoint gone .*a fork is made of a checkpoint"):
            await state.fork("trial", at="checkpoint:gone")  # and makes no space
        await state.fork("trial", at="checkpoint:before", prefix=["plan/", "text"])
        fork = state.session(space="trial")
        assert await fork.get("plan/a") == 1
        with pytest.raises(InvalidRequest, match="there is a space trial already"):
            await state.fork("trial")
        await state.create_space("other")
        with pytest.raises(InvalidRequest, match="is no fork of default"):
            await state.merge_space("other")
        with pytest.raises(InvalidRequest, match="is a fork of default, not of other"):
            await state.session(space="other").merge_space("trial")
        for itself in ("default", "trial"):
            with pytest.raises(InvalidRequest, match="cannot be merged into itself"):
                await state.session(space=itself).merge_space(itself)
        await fork.text("text").set("one two")
        await state.text("text").set("zero one")
        await fork.delete("plan/a")
        for is_dry in (True, False):
            merged = await state.merge_space("trial", dry_run=is_dry)
            assert (merged.removed, merged.written, [*merged.left]) == ([], ["text"], ["plan/a"])
            assert "changed here too" in merged.left["plan/a"]
        assert await state.get("plan/a") == 2  # written since the fork
        assert await state.text("text").read() == "zero one two"


async def test_a_merge_says_which_checkpoint_it_lacks(daemon: Daemon) -> None:
    async with AsyncClient(daemon.socket, agent="ann") as state:
        await state.set("a", 1)
        await state.checkpoint("before")
        await state.fork("trial", at="before")
        await state.fork("other")
        await state.delete_checkpoint("before")
        with pytest.raises(InvalidRequest, match=r"checkpoint before that trial was made of .* --space trial export"):
            await state.merge_space("trial")
        await state.session(space="other").delete_checkpoint("fork")
        with pytest.raises(InvalidRequest, match=r"has no checkpoint fork, .* --space other export"):
            await state.merge_space("other")


def test_forks_of_one_name_made_on_hosts_that_are_apart_are_refused_with_what_to_do(pair: Cluster) -> None:
    first, second = pair[0].client("ann"), pair[1].client("bob")
    first.incr("count", 5)
    second.wait(first.now())
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for state in (first, second):
        state.fork("trial")
    pair.heal()
    wait_until(
        lambda: all(len(state.session(space="trial").checkpoints()) == 2 for state in (first, second)),
        what="both hosts know both forks",
    )
    for state in (first, second):
        with pytest.raises(InvalidRequest, match=r"the fork trial was made 2 times .* --space trial export"):
            state.merge_space("trial")


def test_commands_fork_and_merge(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("set", "plan/a", "1")
    shell.ok("set", "plan/b", "1")
    shell.ok("checkpoint", "create", "before")
    shell.ok("set", "plan/c", "1")
    shell.ok("checkpoint", "fork", "before", "--space", "trial", "--prefix", "plan/")
    assert shell.ok("--space", "trial", "ls") == "plan/a\nplan/b"
    shell.ok("--space", "trial", "set", "plan/a", "2")
    shell.ok("--space", "trial", "del", "plan/b")
    assert shell.ok("space", "merge", "trial", "--dry-run") == "+ plan/a\n- plan/b"
    assert shell.ok("get", "plan/a") == "1"
    assert shell.ok("space", "merge", "trial") == "+ plan/a\n- plan/b"
    assert (shell.ok("get", "plan/a"), shell("get", "plan/b").status) == ("2", 1)
    again = shell("space", "merge", "trial")
    assert (again.status, again.out) == (0, "")
    assert "nothing has changed in trial that is not here" in again.err
    (told,) = shell.json("--json", "space", "merge", "trial")
    assert (told["written"], told["removed"], told["left"]) == ([], [], {})
    shell.ok("--space", "trial", "checkpoint", "fork", "--now", "--space", "inner")  # of another space
    shell.ok("--space", "inner", "set", "plan/a", "3")
    assert shell.ok("space", "merge", "inner", "--into", "trial", "--prefix", "plan/") == "+ plan/a"
    assert (shell.ok("--space", "trial", "get", "plan/a"), shell.ok("get", "plan/a")) == ("3", "2")
    assert "crdtsync --space trial checkpoint delete fork-inner" in shell("space", "drop", "inner").err
    shell.ok("--space", "trial", "checkpoint", "delete", "fork-inner")
    assert "checkpoint" not in shell("space", "drop", "trial").err  # that has a name of its own
    for refused, why in ((["trial"], "--space"), (["before", "--now", "--space", "x"], "either")):
        told = shell("checkpoint", "fork", *refused)
        assert told.status == 2
        assert why in told.err
