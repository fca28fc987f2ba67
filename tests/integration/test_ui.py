"""The page's server over a real daemon, asked as a browser asks. What the page shows is tested in a browser."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crdtsync.errors import Timeout
from crdtsync.ui.calls import DIFFERENT_CHARS_MAX, VALUE_CHARS_MAX
from tests.harness import Daemon
from tests.harness.shell import Running, Shell
from tests.harness.values import PNG

pytestmark = pytest.mark.integration


class Browser:
    """Asks the page's server as its page does."""

    def __init__(self, run: Running, trusting: ssl.SSLContext | None = None) -> None:
        self.run = run
        self.trusting = trusting
        self.address, self.word = run.line().strip().split("#")
        self.scheme, _, self.host = self.address.rstrip("/").partition("://")
        self.cookie = ""
        self.place = ""

    def ask(self, method: str, path: str, content: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        if self.scheme == "https":
            connection = http.client.HTTPSConnection(self.host, timeout=30, context=self.trusting)
        try:
            known = {"origin": f"{self.scheme}://{self.host}", "cookie": self.cookie, **headers}
            path = path if path.startswith(("/login", "/assets")) or path == "/" else f"{self.place}{path}"
            connection.request(method, path, None if content is None else json.dumps(content), known)
            response = connection.getresponse()
            if cookie := response.getheader("set-cookie"):
                assert "HttpOnly" in cookie
                assert "SameSite=strict" in cookie
                assert ("Secure" in cookie) == (self.scheme == "https")
                self.cookie = cookie.split(";")[0]
            body = response.read()
            is_json = response.getheader("content-type", "").startswith("application/json")
            return response.status, json.loads(body) if is_json else body
        finally:
            connection.close()

    def login(self) -> None:
        status, told = self.ask("POST", "/login", {"word": self.word})
        assert status == 200
        self.place = told["result"]

    def call(self, name: str, /, **content: Any) -> Any:
        status, told = self.ask("POST", f"/api/{name}", content)
        assert status == 200, told
        return told.get("result", told)


@pytest.fixture
def shell(daemon: Daemon, tmp_path: Path) -> Shell:
    return Shell(daemon.socket, tmp_path)


@pytest.fixture
def browser(shell: Shell) -> Iterator[Browser]:
    with shell.start("ui", "--listen", "0", "--agent", "ann") as run:
        made = Browser(run)
        made.login()
        yield made


def test_an_address_lets_one_browser_in_and_then_there_is_another(browser: Browser):
    assert browser.ask("POST", "/login", {"word": browser.word})[1]["error"]["code"] == "used"
    assert browser.run.line().startswith(f"{browser.address}#")
    assert browser.ask("POST", "/api/spaces", {}, cookie="")[0] == 401
    place, browser.place = browser.place, ""
    assert browser.ask("POST", "/api/spaces", {})[0] == 401, "a cookie is worth nothing without its path"
    browser.place = "/in-guessed"
    assert browser.ask("POST", "/api/spaces", {})[0] == 401
    browser.place = place
    assert browser.ask("POST", "/api/spaces", {})[0] == 200
    assert browser.ask("POST", "/api/spaces", {}, origin="https://evil.example")[0] == 403
    assert browser.ask("GET", "/", host="evil.example")[0] == 421
    assert b"/assets/app.js" in browser.ask("GET", "/")[1]
    for path in ("/assets/../server.py", "/assets/%2e%2e/server.py", "/assets/nothing.js", "/assets/"):
        assert browser.ask("GET", path)[0] == 404
    browser.run.process.send_signal(signal.SIGTERM)
    assert browser.run.process.wait(30) in (0, -signal.SIGTERM)


def test_what_the_page_reads_and_writes(browser: Browser, daemon: Daemon):
    state = daemon.client("bob")
    state.set("plan/goal", {"ship": True})
    state.append("plan/log", "one")
    state.add("plan/tags", "a")
    state.merge("plan/map", {"x": 1})
    state.text("plan/text").set("words")
    found = browser.call("tree")
    assert (found["folders"], found["keys"]) == (["plan/"], [])
    assert [one["key"] for one in browser.call("tree", prefix="plan/")["keys"]] == [
        "plan/goal", "plan/log", "plan/map", "plan/tags", "plan/text",
    ]  # fmt: skip
    values = {key: browser.call("entry", key=f"plan/{key}") for key in ("goal", "log", "map", "tags", "text")}
    assert values["goal"]["value"] == {"ship": True}
    assert [one["value"] for one in values["log"]["parts"]] == ["one"]
    assert (values["map"]["value"], values["tags"]["value"], values["text"]["value"]) == ({"x": 1}, ["a"], "words")
    assert browser.call("entry", key="none") is None
    state.claim("job", keep=False).acquire()
    told = browser.call("tree")
    assert (told["folders"], told["records"]) == (["plan/"], ["claims/"])

    version = values["goal"]["version"]
    browser.call("write", key="plan/goal", value="by hand", version=version)
    assert [one.agent for one in state.entries("plan/goal")] == ["ann"]
    error = browser.call("write", key="plan/goal", value="late", version=version)["error"]
    assert error["code"] == "version_mismatch"
    assert browser.call("write", key="plan/goal", value=1, version=None)["error"]["code"] == "version_mismatch"
    writes = browser.call("history", key="plan/goal")["writes"]
    assert [(one["agent"], one["fate"]) for one in writes] == [("ann", "live"), ("bob", "replaced")]
    assert browser.call("explain", key="plan/goal")["state"] == "present"
    browser.call("delete", key="plan/goal", version=browser.call("entry", key="plan/goal")["version"])
    assert state.get("plan/goal") is None
    assert browser.ask("POST", "/api/entry", {"what": 1})[0] == 400
    assert browser.ask("POST", "/api/nothing", {})[0] == 404
    assert browser.ask("POST", "/api/entry", ["no object"])[0] == 400


def test_time_and_work(browser: Browser, daemon: Daemon):
    state = daemon.client("bob")
    state.set("a", 1)
    state.merge("map", {"x": 1})
    browser.call("checkpoint", name="then", note="first")
    (point,) = browser.call("checkpoints")
    assert (point["name"], point["note"]) == ("then", "first")
    state.set("a", 2)
    state.set("b", 1)
    differences = browser.call("diff", before="then")
    assert [(one["key"], one["before"] and one["before"]["value"]) for one in differences["keys"]] == [
        ("a", 1),
        ("b", None),
    ]
    assert browser.call("entry", key="a", at=point["cut"])["value"] == 1
    state.merge("map", {"y": 2})
    done = browser.call("restore", point="then", dry_run=True)
    assert (done["restored"], done["removed"], done["changed"]) == (["a"], ["b"], ["map"])
    assert state.get("b") == 1
    browser.call("restore", point="then", dry_run=False)
    assert (state.get("a"), state.get("b"), state.get("map")) == (1, None, {"x": 1})

    state.put_task("tasks/1", {"n": 1})
    state.claim("job").acquire()
    told = browser.call("work")
    assert [(one["key"], one["state"]) for one in told["tasks"]] == [("tasks/1", "open")]
    assert [one["agent"] for one in told["claims"]] == ["bob"]
    assert "ann" in {one["agent"] for one in told["who"]}
    browser.call("release", key="job", fence=told["claims"][0]["fence"])
    assert state.claims() == []
    assert browser.call("sessions") == []
    state.set("long", "word " * 400)
    told = browser.call("view", budget=200)
    assert sum(one["tokens"] for one in told["parts"]) <= told["tokens"] <= 200
    assert {one["key"]: one["is_whole"] for one in told["parts"]}["long"] is False
    with pytest.raises(AssertionError, match="400"):
        browser.call("view", nonsense=1)
    assert browser.ask("POST", "/api/tree", {"space": ["default"]})[0] == 400


def test_of_what_is_long_the_page_gets_the_beginning(browser: Browser, daemon: Daemon):
    """A browser would take a second to lay out a mebibyte."""
    state = daemon.client("bob")
    state.checkpoint("then")
    words = "word " * 100_000
    state.set("long/words", words)
    state.append("long/log", words)
    state.put_task("tasks/long", words)
    with pytest.raises(Timeout):
        state.ask("long", "Read it?", context=words, timeout=0)
    cut = {"$cut": len(words), "text": words[:VALUE_CHARS_MAX]}
    assert browser.call("entry", key="long/words")["value"] == cut
    assert [one["value"] for one in browser.call("entry", key="long/log")["parts"]] == [cut]
    assert {one["key"]: one["after"]["value"] for one in browser.call("diff", before="then")["keys"]}["long/words"] == {
        "$cut": len(words), "text": words[:DIFFERENT_CHARS_MAX]
    }  # fmt: skip
    told = browser.call("work")
    assert (told["asks"][0]["context"], told["tasks"][0]["input"]) == (cut, cut)
    view = browser.call("view", prefix="long/words", budget=200_000)
    assert (view["text"]["$cut"] > VALUE_CHARS_MAX, len(view["text"]["text"])) == (True, VALUE_CHARS_MAX)


def test_differences_come_page_by_page(browser: Browser, daemon: Daemon):
    state = daemon.client("bob")
    state.checkpoint("then")
    with state.batch() as batch:
        for number in range(120):
            batch.set(f"k/{number:03}", number)
    found: list[str] = []
    more = None
    while True:
        told = browser.call("diff", before="then", start=more)
        found += [one["key"] for one in told["keys"]]
        more = told["more"]
        if more is None:
            break
    assert found == [f"k/{number:03}" for number in range(120)]


def test_alarms_come_with_what_to_do(tmp_path: Path):
    with Daemon(free_bytes_min=1 << 50) as full, Shell(full.socket, tmp_path).start("ui", "--listen", "0") as run:
        browser = Browser(run)
        browser.login()
        alarms = {one["code"]: one["remedy"] for one in browser.call("fleet")["alarms"]}
        assert "free some space" in alarms["no_space"]


def test_the_doctor_is_at_hand_also_while_the_daemon_is_away(browser: Browser, daemon: Daemon):
    findings = browser.call("doctor")
    assert {"daemon", "alarms"} <= {one["check"] for one in findings}
    daemon.client("bob").set("a", 1)
    daemon.stop()
    assert "problem" in {one["state"] for one in browser.call("doctor")}
    daemon.start()


def test_the_doctor_is_for_those_who_may_read_everything(daemon: Daemon, tmp_path: Path):
    state = daemon.client("admin")
    key = tmp_path / "key"
    key.write_text(state.agent_create("eve")["key"])
    key.chmod(0o600)
    state.access_grant("agent:eve", "read", "shared/**")
    shell = Shell(daemon.socket, tmp_path)
    with shell.start("ui", "--listen", "0", "--agent-key-file", str(key)) as run:
        browser = Browser(run)
        browser.login()
        assert browser.call("fleet")["limited"]
        assert browser.call("doctor")["error"]["code"] == "not_allowed"


def test_bytes_and_a_copy_to_try_things_out_in(browser: Browser, daemon: Daemon):
    state = daemon.client("bob")
    drawing = b"<svg onload='alert(1)'/>"
    state.put_blob("files/a.svg", drawing, media_type="image/svg+xml")
    state.put_blob("files/a.png", PNG, media_type="image/png")
    assert browser.call("entry", key="files/a.png")["value"]["size"] == len(PNG)
    for key, held, kind, way in (
        ("a.png", PNG, "image/png", None),
        ("a.svg", drawing, "application/octet-stream", "attachment"),
    ):
        connection = http.client.HTTPConnection(browser.host, timeout=30)
        connection.request(
            "GET", f"{browser.place}/blob?key=files/{key}&space=default", headers={"cookie": browser.cookie}
        )
        response = connection.getresponse()
        assert (response.getheader("content-type"), response.getheader("content-disposition")) == (kind, way)
        assert response.getheader("x-content-type-options") == "nosniff"
        assert response.read() == held
        connection.close()
    state.set("plain", 1)
    assert [browser.ask("GET", f"/blob?key={key}")[0] for key in ("none", "plain", "")] == [404, 404, 404]
    assert browser.ask("GET", "/blob?key=files/a.png", cookie="")[0] == 401

    browser.call("fork", name="trial")
    assert "trial" in browser.call("spaces")
    state.session(space="trial").set("plain", 2)
    assert browser.call("merge_space", name="trial", dry_run=True)["written"] == ["plain"]
    assert state.get("plain") == 1
    browser.call("merge_space", name="trial", dry_run=False)
    assert state.get("plain") == 2


def test_news_come_when_something_changes_and_when_the_daemon_is_away(browser: Browser, daemon: Daemon):
    connection = http.client.HTTPConnection(browser.host, timeout=60)
    connection.request("GET", f"{browser.place}/live", headers={"cookie": browser.cookie})
    stream = connection.getresponse()
    assert stream.getheader("content-type", "").startswith("text/event-stream")

    def told() -> dict[str, Any]:
        while not (line := stream.readline()).startswith(b"data: "):
            assert line, "the stream has ended"
        found: dict[str, Any] = json.loads(line[6:])
        return found

    assert told()["agent"] == "ann"
    first = told()
    assert first["down"] is None
    daemon.client("bob").set("a", 1)
    while told()["token"] == first["token"]:
        pass
    daemon.stop()
    while told()["down"] is None:
        pass
    daemon.start()
    while told()["down"] is not None:
        pass
    connection.close()


def test_read_only_and_what_is_refused_at_the_start(daemon: Daemon, shell: Shell):
    with shell.start("ui", "--listen", "0", "--read-only") as run:
        browser = Browser(run)
        browser.login()
        status, told = browser.ask("POST", "/api/write", {"key": "a", "value": 1, "version": None})
        assert (status, told["error"]["code"]) == (403, "read_only")
        assert browser.call("spaces") == ["default"]
        busy = browser.host.rpartition(":")[2]
        refused = shell("ui", "--listen", busy)
        assert f"port {busy} of 127.0.0.1 is in use: give --listen another one, or 0" in refused.err
    assert daemon.client().keys() == []
    for place, said in (("0.0.0.0:0", "--certificate"), ("nonsense:0", "--certificate"), ("x", "[HOST:]PORT")):
        assert said in shell("ui", "--listen", place).err


def test_beyond_loopback_with_a_certificate(daemon: Daemon, shell: Shell):
    certificate, key = (str(daemon.data / name) for name in ("node.crt", "node.key"))
    both = "--certificate", certificate, "--private-key", key
    for given, said in (
        (both[:2], "give both"),
        (both[2:], "give both"),
        (("--certificate", key, "--private-key", certificate), "is no certificate"),
        ((*both, "--listen", "0.0.0.0:0"), "browsers do not open 0.0.0.0"),
    ):
        refused = shell("ui", "--listen", "0", *given)
        assert (said in refused.err, refused.out, refused.status) == (True, "", 4), refused
    for host in ("localhost", "127.0.0.1"):
        with shell.start("ui", "--listen", f"{host}:0", *both) as run:
            trusting = ssl.create_default_context(cafile=certificate)
            trusting.check_hostname = False
            browser = Browser(run, trusting)
            assert browser.address.startswith(f"https://{host}:")
            assert b"<title>crdtsync</title>" in browser.ask("GET", "/")[1]
            assert browser.ask("POST", "/login", {"word": browser.word}, origin=f"http://{browser.host}")[0] == 403
            browser.login()
            assert browser.call("spaces") == ["default"]
            assert browser.ask("POST", "/api/spaces", {}, cookie="")[0] == 401
