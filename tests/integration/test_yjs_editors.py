"""Unmodified Yjs editors join the texts of a fleet, by the provider of y-websocket; and who is kept out."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from crdtsync.yjs.messages import asking, editing
from crdtsync.yjs.server import is_origin
from tests.harness.browser import chromium
from tests.harness.cluster import Cluster, wait_until, wait_until_equal
from tests.harness.daemon import Daemon
from tests.harness.shell import Shell
from tests.harness.yjs import ESBUILD, PAGE_PACKAGES, Server, editor, editors_in, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.integration

HOW_TO = Path(__file__).resolve().parents[2] / "docs/how-to/people-and-agents.md"
SHOWN = "window.editor && editor.state.doc.toString()"
"""What the page of the documentation shows."""
EMPTY = asking(b"\0")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the editors are; skips the tests if npm cannot bring them."""
    return editors_in(tmp_path_factory.mktemp("yjs-editors"))


def test_people_and_an_agent_on_two_hosts_write_one_text(programs: Path, pair: Cluster) -> None:
    agent = pair[0].client("agent").text("docs/notes")
    agent.set("Plan\n")
    wait_until_equal(pair)
    with ExitStack() as stack:
        here, there = (stack.enter_context(served(daemon)) for daemon in pair)
        ann, bob = (stack.enter_context(editor(programs, here, "docs/notes", name)) for name in ("ann", "bob"))
        eve = stack.enter_context(editor(programs, there, "docs/notes", "eve"))
        people = [ann, bob, eve]
        assert all(one.do("synced") for one in people)
        for number in range(40):
            for one, letter in zip(people, "abe", strict=True):
                one.do("insert", number % 5, letter)
        agent.read()
        agent.insert(0, "Agent: ")
        eve.do("disconnect")
        eve.do("insert", 0, "offline ")
        eve.do("connect")

        def are_one() -> bool:
            texts = {
                ann.text,
                bob.text,
                eve.text,
                *(daemon.client("reader").text("docs/notes").read() for daemon in pair),
            }
            return len(texts) == 1

        wait_until(are_one, what="all show one text")
        text = ann.text
        assert sorted(text) == sorted("Plan\n" + "abe" * 40 + "Agent: " + "offline ")
        wait_until(lambda: ann.do("names") == ["ann", "bob"], what="people of one host see each other")
        assert {item.agent for item in pair[1].client("reader").history("docs/notes")} == {"agent", "ann", "bob", "eve"}
        pair[0].kill()
        ann.do("insert", 0, "while it was down ")
        pair[0].start()
        wait_until(
            lambda: bob.text == eve.text == "while it was down " + text, what="what was typed meanwhile is there"
        )


def test_an_editor_comes_back_after_a_compaction_and_loses_nothing(programs: Path, daemon: Daemon) -> None:
    agent = daemon.client("agent").text("notes")
    agent.set("Hello cruel world")
    with (
        served(daemon) as server,
        editor(programs, server, "notes", "ann") as ann,
        editor(programs, server, "notes", "bob") as bob,
    ):
        assert ann.do("synced")
        assert bob.do("synced")
        ann.do("delete", 6, 11)
        wait_until(lambda: bob.text == "Hello ", what="bob has heard of it")
        bob.do("disconnect")
        bob.do("insert", 6, "there")  # beside what is forgotten in a moment
        agent.read()
        agent.compact()
        ann.do("insert", 0, "> ")
        wait_until(lambda: agent.read() == "> Hello ", what="ann goes on")
        bob.do("connect")
        wait_until(lambda: bob.text == ann.text == agent.read() == "> Hello there", what="all show one text")


def test_an_editor_of_another_document_is_sent_away(programs: Path, daemon: Daemon) -> None:
    """Merged, the two would show everything twice."""
    state = daemon.client("agent")
    state.text("notes").set("one")
    with served(daemon) as server, editor(programs, server, "notes", "ann") as ann:
        assert ann.do("synced")
        state.delete("notes")
        wait_until(lambda: ann.do("closed") == 4409, what="it is told")
        daemon.client("other").text("notes").set("another one")  # who deleted it would edit the document that it knows
        ann.do("insert", 3, "!")
        ann.do("connect")
        wait_until(lambda: ann.do("closed") == 4409, what="it is told again")
    assert daemon.client("reader").get("notes") == "another one"


def test_who_may_only_read_is_told_so_and_goes_on_reading(programs: Path, daemon: Daemon) -> None:
    state = daemon.client("agent")
    text = state.text("notes")
    text.set("one")
    with served(daemon, "--read-only") as server, editor(programs, server, "notes", "ann") as ann:
        assert ann.do("synced")
        ann.do("insert", 0, "mine ")
        wait_until(lambda: ann.do("denied"), what="it is told")
        text.set("one two")
        wait_until(lambda: ann.text == "mine one two", what="it hears of others")
        assert text.read() == "one two"


def address(server: Server, rest: str, token: str | None = None) -> str:
    return f"{server.address}/{rest}?token={quote(server.token if token is None else token)}"


def test_who_shows_no_token_or_comes_from_elsewhere_is_refused(daemon: Daemon) -> None:
    with served(daemon, "--origin", "https://wiki.example") as server:
        good = address(server, "default/notes")
        for origin in (None, "http://localhost:5173", "https://wiki.example"):
            with connect(good, origin=origin) as connection:  # type: ignore[arg-type]  # NewType of str
                connection.send(EMPTY)
                assert isinstance(connection.recv(timeout=60), bytes)
        for url, origin, host, status in (
            (address(server, "default/notes", "wrong"), None, None, 401), (address(server, "default"), None, None, 401),
            (good, "https://evil.example", None, 403), (good, None, "evil.example", 421),
        ):  # fmt: skip
            headers = {"Host": host} if host else {}
            with pytest.raises(InvalidStatus) as refused:
                connect(url, origin=origin, additional_headers=headers)  # type: ignore[arg-type]
            assert refused.value.response.status_code == status


def test_nobody_takes_a_name_that_has_a_key(daemon: Daemon, tmp_path: Path) -> None:
    """Also where the server runs as root or as the daemon's user, who may write under any name."""
    state = daemon.client("host")
    key = tmp_path / "critic.key"
    key.write_text(state.agent_create("critic")["key"])
    key.chmod(0o600)
    state.access_grant("agent:critic", "write")
    state.text("notes").set("one")
    with served(daemon) as server:
        for name in ("critic", "Critic", "\uff43ritic"):
            with connect(f"{address(server, 'default/notes')}&agent={quote(name)}") as bad:
                assert code_of(bad) == 4403, name
        with connect(f"{address(server, 'default/notes')}&agent=ann") as good:
            good.send(EMPTY)
            assert isinstance(good.recv(timeout=60), bytes)
    with (
        served(daemon, "--agent-key-file", str(key)) as server,
        connect(f"{address(server, 'default/notes')}&agent=critic") as good,
    ):
        good.send(EMPTY)
        assert isinstance(good.recv(timeout=60), bytes)


def code_of(connection: ClientConnection) -> int:
    """With which code the server closes it."""
    with pytest.raises(ConnectionClosedError) as closed:
        deque(connection, maxlen=0)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def test_what_is_no_edit_ends_its_connection_alone(daemon: Daemon) -> None:
    state = daemon.client("agent")
    state.set("register", 1)
    state.text("notes").set("one")
    with served(daemon) as server, connect(address(server, "default/notes")) as good:
        good.send(EMPTY)
        for place, sent, code in (
            ("default/notes", [b""], 4400), ("default/notes", [b"\xff" * 40], 4400),
            ("default/notes", [EMPTY, editing(b"\x01\xff\xff")], 4400), ("default/notes", [editing(b"\0\0")], 4400),
            ("default/notes", [asking(b"\x05\x01")], 4400), ("default/notes", [EMPTY, editing(bytes(2**20 + 1))], 4413),
            ("default/register", [EMPTY], 4400), ("nowhere/notes", [EMPTY], 4404),
        ):  # fmt: skip
            with connect(address(server, place)) as bad:
                with suppress(ConnectionClosed):  # by an earlier message, or by the place
                    for message in sent:
                        bad.send(message)
                assert code_of(bad) == code, (place, sent)
        assert good.recv(timeout=60)[:2] == b"\0\1"
        state.text("notes").insert(0, "!")
        assert isinstance(good.recv(timeout=60), bytes)


def test_a_port_that_is_not_loopback_is_refused(daemon: Daemon, tmp_path: Path) -> None:
    refused = Shell(daemon.socket, tmp_path)("yjs", "--listen", "0.0.0.0:0", "--token-file", str(tmp_path / "token"))
    assert (refused.status, "loopback" in refused.err) == (4, True)


def test_what_is_no_origin_and_a_port_in_use_are_refused_with_a_sentence(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    for origin in ("nonsense", "wiki.example", "https://wiki.example/", "https://", "https://a:b", "HTTPS://a", ""):
        refused = shell("yjs", "--listen", "0", "--origin", origin, "--token-file", str(tmp_path / "token"))
        assert (refused.status, "is no origin" in refused.err) == (2, True), refused.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = shell("yjs", "--listen", f"{port}", "--token-file", str(tmp_path / "token"))
    assert refused.err == f"crdtsync: port {port} of 127.0.0.1 is in use by another program: choose another one\n"


@pytest.mark.parametrize("origin", ["https://wiki.example", "http://[::1]:8080", "vscode-webview://a1-b2", "null"])
def test_what_is_an_origin(origin: str) -> None:
    assert is_origin(origin)


@pytest.mark.slow
def test_the_page_of_the_documentation_and_an_agent_write_one_text(pair: Cluster, tmp_path: Path) -> None:
    programs = editors_in(tmp_path, PAGE_PACKAGES)
    page = tmp_path / "page"
    page.mkdir()
    (program,) = re.findall(r"^```js\n(.*?)^```$", HOW_TO.read_text(), re.MULTILINE | re.DOTALL)
    (page / "editor.js").write_text(program)
    bundle = [str(programs / ESBUILD), "editor.js", "--bundle", "--outfile=bundle.js", "--log-level=error"]
    subprocess.run(bundle, cwd=page, check=True)
    (page / "index.html").write_text('<!doctype html><meta charset="utf-8"><body><script src="bundle.js"></script>')
    agent = pair[0].client("agent").text("report")
    agent.set("Draft: ")
    wait_until_equal(pair)
    with ExitStack() as stack:
        here, there = (stack.enter_context(served(daemon)) for daemon in pair)
        host = stack.enter_context(files(page))
        browser = stack.enter_context(chromium())
        ann, bob, eve = (browser.new_page() for _ in range(3))
        addresses = (
            f"{host}/#" + urlencode({"name": name, "server": server.address, "token": server.token})
            for name, server in (("ann", here), ("bob", there), ("eve", here))
        )
        for tab, place in zip((ann, bob, eve), addresses, strict=True):
            tab.goto(place)
        for tab in (ann, bob):
            wait_until(partial(shows, tab, "Draft: "), what="the page shows the text")
        for tab, word in ((ann, "people "), (bob, "on two hosts ")):
            tab.evaluate("editor.focus(); editor.dispatch({selection: {anchor: editor.state.doc.length}})")
            tab.keyboard.insert_text(word)
        agent.read()
        agent.insert(0, "# By agents and people\n")
        words = sorted("# By agents and people\nDraft: people on two hosts ")
        wait_until(
            lambda: ann.evaluate(SHOWN) == bob.evaluate(SHOWN) == agent.read() and sorted(agent.read()) == words,
            what="all show one text",
        )
        caret = "document.querySelector('.cm-ySelectionInfo')?.textContent"
        wait_until(lambda: eve.evaluate(caret) == "ann", what="a caret")
        eve.screenshot(path=tmp_path / "page.png")
        agent.read()
        pair[0].client("agent").delete("report")
        agent.set("Another one")
        wait_until(partial(shows, ann, "Another one"), what="the page was loaded again")


def shows(tab: Page, text: str) -> bool:
    """Whether it does; not while it is loaded again, which ends what is asked of it."""
    from playwright.sync_api import Error  # starts a driver of its own

    try:
        return bool(tab.evaluate(SHOWN) == text)
    except Error as error:
        if "context was destroyed" not in error.message:
            raise
        return False


class Files(SimpleHTTPRequestHandler):
    """Files of a directory, without a word."""

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def files(directory: Path) -> Iterator[str]:
    """The address of a server of this directory."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(directory))) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://localhost:{server.server_address[1]}"
        finally:
            server.shutdown()
