"""Nested maps and lists in one key: edited on two hosts, by commands, and by an unmodified Yjs program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from pycrdt import Doc, Map

from crdtsync import AsyncClient
from crdtsync.errors import InvalidRequest, InvalidValue, NotAllowed, TooLarge, VersionMismatch
from tests.harness.cluster import Cluster, wait_until, wait_until_equal
from tests.harness.daemon import Daemon
from tests.harness.shell import Shell
from tests.harness.yjs import editor, editors_in, served

pytestmark = pytest.mark.integration


def test_edits_of_two_hosts_that_were_cut_off_are_merged(pair: Cluster) -> None:
    ann, bob = (daemon.client(name).doc("board") for daemon, name in zip(pair, ("ann", "bob"), strict=True))
    ann.set("columns", [{"title": "todo", "cards": []}])
    wait_until_equal(pair)
    pair.cut(0, 1)
    for number in range(5):
        ann.insert("columns/0/cards/-", f"ann {number}")
        bob.insert("columns/0/cards/-", f"bob {number}")
    ann.set("columns/0/title", "now")
    bob.set("owner/name", "bob")
    pair.heal()
    wait_until_equal(pair)
    whole = ann.get()
    assert whole == bob.get()
    assert (whole["owner"], whole["columns"][0]["title"]) == ({"name": "bob"}, "now")
    cards = whole["columns"][0]["cards"]
    for name in ("ann", "bob"):
        assert [card for card in cards if card.startswith(name)] == [f"{name} {number}" for number in range(5)]
    pair[0].kill()
    pair[0].start()
    assert pair[0].client("later").doc("board").get() == whole


def test_what_texts_have_documents_have(daemon: Daemon) -> None:
    """Conditions, reads of the past, rights, tokens; and a refused edit leaves nothing behind."""
    state = daemon.client("ann")
    board = state.doc("board")
    token = board.set("title", "one")
    before = state.entry("board")
    board.set("title", "two")
    entry = state.entry("board")
    assert before is not None
    assert entry is not None
    assert state.session(at=token).doc("board").get("title") == "one"
    assert daemon.client("bob").doc("board").get("title", after=token) == "two"
    with pytest.raises(VersionMismatch):
        board.set("title", "three", if_version=before.version)
    board.set("title", "three", if_version=entry.version)
    assert board.set("title", "three") is not None  # which changes nothing
    for path, value, fault in (("title/x", 1, InvalidRequest), ("big", 2**60, InvalidValue), ("", {}, InvalidRequest)):
        with pytest.raises(fault):
            board.set(path, value)
    with pytest.raises(TooLarge, match="at most 1,300: split the edit"):
        board.set("long", [{"n": number} for number in range(2000)])
    assert board.get() == {"title": "three"}
    state.delete("board")
    assert (board.get(), board.get("title", "none")) == ({}, "none")


async def test_a_path_is_observed_on_another_host(pair: Cluster) -> None:
    """And what changes elsewhere in the document, or in a key that begins alike, is not told."""
    async with AsyncClient(pair[0].socket, agent="ann") as ann, AsyncClient(pair[1].socket, agent="bob") as bob:
        board = ann.doc("board")
        titles = bob.doc("board").observe("columns/0/title", "none")
        assert isinstance(titles, AsyncGenerator)
        assert await anext(titles) == "none"
        await board.set("columns", [{"title": "todo", "cards": []}])
        assert await anext(titles) == "todo"
        await board.insert("columns/0/cards/-", "write the plan")
        await ann.doc("board/2").set("columns", [{"title": "another"}])
        await board.set("columns/0/title", "now")
        assert await anext(titles) == "now"
        await board.delete("columns/0")
        assert await anext(titles) == "none"
        await titles.aclose()
        absent = object()  # which no value can be
        cards = bob.doc("board").observe("cards", absent)
        assert isinstance(cards, AsyncGenerator)
        assert await anext(cards) is absent
        await board.set("cards", 1)
        assert await anext(cards) == 1
        await board.delete("cards")
        assert await anext(cards) is absent
        await cards.aclose()


async def test_with_asyncio_and_without_rights(daemon: Daemon) -> None:
    state = daemon.client("host")
    key = state.agent_create("reader")["key"]
    state.access_grant("agent:reader", "read", "board")
    async with AsyncClient(daemon.socket, agent="ann") as ann, AsyncClient(daemon.socket, agent_key=key) as reader:
        token = await ann.doc("board").set(["a/b", "c"], [1, 2.5, {"x": None}])
        assert await reader.doc("board").get(after=token) == {"a/b": {"c": [1, 2.5, {"x": None}]}}
        with pytest.raises(NotAllowed):
            await reader.doc("board").delete(["a/b"])
        await asyncio.gather(*(ann.doc("board").insert(["a/b", "c", 0], number) for number in range(10)))
        assert len(await ann.doc("board").get(["a/b", "c"])) == 13


def test_by_commands(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    assert shell("doc", "board").status == 1
    assert shell.ok("doc", "board", "--set", "columns", '[{"title": "todo"}]').startswith("c1.")
    shell.ok("doc", "board", "--insert", "columns/-", '{"title": "done"}')
    shell.ok("doc", "board", "--delete", "columns/0")
    assert shell.ok("doc", "board") == '{"columns": [{"title": "done"}]}'
    assert shell.ok("doc", "board", "--get", "columns/0/title") == '"done"'
    assert shell("doc", "board", "--get", "columns/7").status == 1
    assert shell("doc", "board", "--set", "columns/7", "1").status == 4
    assert shell("doc", "board", "--get", "a", "--delete", "a").status == 2
    wrong = shell("doc", "board", "--set", "columns", "word")
    assert (wrong.status, "quote it; see crdtsync doc" in wrong.err) == (2, True)
    shell.ok("set", "register", "1")
    assert shell("doc", "register").status == 4
    page: Doc[Any] = Doc()
    page.get("doc", type=Map).update({"nothing": float("nan"), "bytes": b"\x01", "list": [1.5, float("inf")]})
    state = daemon.client("page")
    state.wait(state.text("page").apply(page.get_update()))
    assert shell.ok("doc", "page") == '{"bytes": {"$bytes": "AQ=="}, "list": [1.5, null], "nothing": null}'
    assert shell.ok("doc", "page", "--get", "nothing") == "null"


def test_the_past_of_a_document_is_read_compared_and_restored_and_an_export_says_that_it_leaves_it_out(
    daemon: Daemon, tmp_path: Path
) -> None:
    shell = Shell(daemon.socket, tmp_path)
    shell.ok("doc", "board", "--set", "columns", "[1, 2]")
    shell.ok("checkpoint", "create", "before")
    shell.ok("doc", "board", "--set", "columns/0", "7")
    board = daemon.client("ann").doc("board")
    assert board.get("columns", at="checkpoint:before") == [1, 2]
    assert board.get() == {"columns": [7, 2]}
    assert shell.ok("doc", "board", "--at", "checkpoint:before") == '{"columns": [1, 2]}'
    assert shell.ok("doc", "board", "--get", "columns/0", "--at", "checkpoint:before") == "1"
    assert shell("doc", "board", "--set", "x", "1", "--at", "checkpoint:before").status == 2
    assert shell.ok("checkpoint", "diff", "before").split("\n") == ["~ board", "    .columns[0] 1 -> 7"]
    shell.ok("del", "board")
    assert shell.ok("checkpoint", "restore", "before") == "+ board"
    assert shell.ok("doc", "board") == '{"columns": [1, 2]}'
    exported = shell("export")
    assert (exported.status, exported.out.strip()) == (0, "")
    assert "board was left out: crdtsync doc shows it" in exported.err
    assert "is a document, and its text is empty: see it with crdtsync doc" in shell("get", "board").err
    daemon.client("ann").text("board").set("its text")
    exported = shell("export")
    assert '"its text"' in exported.out
    assert "the document of board was left out: crdtsync doc shows it" in exported.err


def test_of_two_documents_made_at_once_each_is_read_before_one_is_taken(pair: Cluster, tmp_path: Path) -> None:
    pair.cut(0, 1)
    for daemon, name in zip(pair, ("ann", "bob"), strict=True):
        daemon.client(name).doc("board").set("by", name)
    pair.heal()
    wait_until_equal(pair)
    state = pair[0].client("ann")
    entry = state.entry("board")
    assert entry is not None
    (other,) = entry.siblings
    board = state.doc("board")
    found = {board.get("by", sibling=one.dot): str(one.dot) for one in (entry, other)}
    assert found.keys() == {"ann", "bob"}
    with pytest.raises(InvalidRequest, match="conflicts shows the dots of all"):
        board.get(sibling="1.1.1")
    shell = Shell(pair[0].socket, tmp_path)
    shown = shell.ok("conflicts")
    assert '{"by": "ann"}' in shown
    assert '{"by": "bob"}' in shown
    loser = "bob" if board.get("by") == "ann" else "ann"
    assert shell.ok("doc", "board", "--get", "by", "--sibling", found[loser]) == f'"{loser}"'
    shell.ok("resolve", "board", "--take", found[loser])
    assert board.get() == {"by": loser}


def test_a_yjs_program_edits_the_same_map(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> None:
    programs = editors_in(tmp_path_factory.mktemp("yjs-editors"))
    board = daemon.client("agent").doc("board")
    board.set("cards", [{"title": "one"}])
    with served(daemon) as server, editor(programs, server, "board", "ann") as ann:
        assert ann.do("synced")
        assert ann.do("map") == {"cards": [{"title": "one"}]}
        ann.do("push", "cards", {"title": "two", "done": True, "n": 3})
        ann.do("set", "owner", {"name": "ann"})
        board.set("cards/0/title", "ONE")
        wanted = {"cards": [{"title": "ONE"}, {"title": "two", "done": True, "n": 3}], "owner": {"name": "ann"}}
        wait_until(lambda: board.get() == ann.do("map") == wanted, what="both have one map")
