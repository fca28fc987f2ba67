"""The page in real Chromium, over real daemons, with another agent that writes meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from crdtsync.sessions import Sessions
from tests.harness import Cluster, wait_until
from tests.harness.browser import chromium
from tests.harness.npm import installed
from tests.harness.shell import Running, Shell
from tests.harness.values import PNG
from tests.harness.workers import beside

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(400)]

SCREENS = {
    "fleet": "svg.fleet", "state": "ul.list", "time": "input[type=range]", "work": ".board",
    "sessions": "text=Saved sessions", "context": "form",
}  # fmt: skip
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnp.exe\x1b[31m\u2028&lt;"
SESSION = "aaaaaaaa-0000-4000-8000-000000000001"
WAIT_MS = 60_000
"""As long as a test may take: a page may have to wait for a checker from npm, or for a busy machine."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium("--host-resolver-rules=MAP evil.test 127.0.0.1") as found:
        yield found


class Screen:
    """One page of one browser that was let in; what went wrong in it, and what it asked of others."""

    def __init__(self, context: BrowserContext, run: Running) -> None:
        self.run = run
        self.address, self.word = run.line().strip().split("#")
        self.context = context
        self.wrong: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.add_init_script(
            "EventSource = class extends EventSource { constructor(at) { super(at); window.news = this; } }"
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._asked)
        self.page.goto(f"{self.address}#{self.word}")
        self.page.wait_for_selector("nav a")

    def _dialog(self, dialog: Any) -> None:
        if dialog.type == "confirm":
            dialog.accept()
        else:
            self.wrong.append(f"a dialog: {dialog.message}")
            dialog.dismiss()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(self.address):
            self.wrong.append(f"it asked for {request.url}")

    def open(self, place: str, wanted: str) -> None:
        self.page.goto(f"{self.address}#/{place}")
        self.page.wait_for_selector(wanted)


@pytest.fixture
def shown(pair: Cluster, browser: Browser, tmp_path: Path) -> Iterator[Screen]:
    """The page on the first host, as ann."""
    with Shell(pair[0].socket, tmp_path).start("ui", "--listen", "0", "--agent", "ann") as run:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        try:
            made = Screen(context, run)
            yield made
            assert made.wrong == []
        finally:
            context.close()


def saved_session(state: Any, home: Path, turns: list[tuple[str, str]]) -> None:
    """Claude Code's file of a session with these questions and answers, as it stands by now, saved."""
    lines, parent = [], None
    for number, (question, answer) in enumerate(turns):
        for name, role, content in (
            (f"q{number}", "user", question),
            (f"a{number}", "assistant", [
                {"type": "text", "text": answer},
                {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": answer}},
            ]),
            (f"r{number}", "user", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": answer}]),
        ):  # fmt: skip
            message = {"role": role, "model": "claude-x", "content": content}
            lines.append({"type": role, "uuid": name, "parentUuid": parent, "message": message, "sessionId": SESSION,
                          "cwd": "/work", "version": "2.1.330"})  # fmt: skip
            parent = name
    file = home / ".claude" / "projects" / "-work" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    Sessions(state).save(SESSION)


@contextmanager
def late(page: Page, name: str) -> Iterator[None]:
    """What the page asks for first by this call is answered at the end; what it asks for after that, at once."""
    waiting: list[Any] = []
    page.route(f"**/api/{name}", lambda route: route.continue_() if waiting else waiting.append(route))
    yield
    assert waiting
    with page.expect_response(waiting[0].request.url):
        waiting[0].continue_()
    page.unroute(f"**/api/{name}")
    page.evaluate("async () => { await (await fetch('/')).text(); await new Promise(requestAnimationFrame); }")


def fill(pair: Cluster) -> None:
    state = pair[0].client("bob")
    state.set("plan/goal", {"ship": True})
    state.append("findings", "one")
    state.put_task("tasks/1", {"n": 1})
    state.claim("job", keep=False).acquire()
    state.checkpoint("then")


def conflict(pair: Cluster) -> None:
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for daemon, value in zip(pair, ("here", "there"), strict=True):
        daemon.client(f"agent-{value}").set("plan/budget", value)
    pair.heal()
    wait_until(lambda: pair[0].client().conflicts())


def write_until(state: Any, is_over: Event) -> None:
    number = 0
    while not is_over.wait(0.05):
        number += 1
        state.set(f"plan/restless/{number % 50}", number)


def test_every_screen_fits_and_is_fit_for_all(
    pair: Cluster, shown: Screen, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wide and narrow, light and dark; axe, an accessibility checker, finds nothing serious, also in what is folded.
    Another agent writes.
    """
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    fill(pair)
    saved_session(pair[0].client("ann"), tmp_path / "home", [("What now?", "word " * 400), (HOSTILE, HOSTILE)])
    conflict(pair)
    pair[0].client("ann").create_space("a-space-with-a-long-name-" * 4 + "0")
    is_over = Event()
    beside(write_until, pair[1].client("restless"), is_over)
    request.addfinalizer(is_over.set)
    place = installed("CRDTSYNC_TEST_AXE", tmp_path / "axe", ["axe-core@4.11.0"], ["node_modules/axe-core/axe.min.js"])
    axe = (place / "node_modules/axe-core/axe.min.js").read_text()
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 640), ("dark", 360)):  # 640: 200 % of 1280
        shown.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        shown.page.set_viewport_size({"width": width, "height": 800})
        for name, wanted in {
            **SCREENS,
            "state/plan%2Fbudget": "text=keep this one",
            "state/findings": "ol.log",
            f"sessions/{SESSION}": "text=Turn 2",
        }.items():
            shown.open(name, wanted)
            shown.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            excess = shown.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert excess <= 0, f"{name} is {excess} px wider than {width} px"
            found = shown.page.evaluate(f"async () => {{ {axe}; return (await axe.run()).violations; }}")
            serious = {
                (one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in ("serious", "critical")
            }
            assert serious == set(), f"{name}, {scheme}, {width} px"


def test_a_conflict_is_settled_and_an_edit_that_comes_late_writes_nothing(pair: Cluster, shown: Screen) -> None:
    conflict(pair)
    page, bob = shown.page, pair[0].client("bob")
    shown.open("state/plan%2Fbudget", "text=2 values were written at the same time")
    page.locator(".value", has_text="there").get_by_text("keep this one").click()
    page.wait_for_selector("text=2 values were written", state="detached")
    entry = bob.entry("plan/budget")
    assert entry is not None
    assert (entry.value, entry.siblings) == ("there", [])

    page.get_by_role("button", name="edit").click()
    page.locator("textarea").fill('"by hand"')
    bob.set("plan/budget", "meanwhile")
    page.get_by_role("button", name="save").click()
    page.wait_for_selector("text=Somebody was faster")
    page.wait_for_selector("text=What you wanted to write")
    assert bob.get("plan/budget") == "meanwhile"
    page.get_by_role("button", name="edit").click()
    page.locator("textarea").fill('"by hand"')
    page.get_by_role("button", name="save").click()
    wait_until(lambda: bob.get("plan/budget") == "by hand")
    assert pair[1].client().entry("plan/budget", after=bob.last_token).agent == "ann"  # type: ignore[union-attr]

    page.mouse.move(5, 5)  # nothing moves under the pointer
    conflict(pair)
    page.get_by_role("button", name="merge by hand").click()
    assert page.locator("form .value").all_inner_texts() != []
    page.locator("textarea").fill('["here", "there"]')
    page.get_by_role("button", name="save").click()
    wait_until(lambda: bob.get("plan/budget") == ["here", "there"])
    assert bob.conflicts() == []
    page.wait_for_selector("text=2 values were written", state="detached")
    page.wait_for_selector("section[aria-label=Value] pre >> text=there")


def test_each_field_of_a_map_is_settled_by_itself(pair: Cluster, shown: Screen) -> None:
    """A value of a field is compared with the other value of that field, not with the whole map."""
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for daemon, field in zip(pair, ("poetry", "mathematics"), strict=True):
        daemon.client(f"agent-{field}").merge("profile", {"field": field, "of": f"born in {field}"})
    pair.heal()
    bob = pair[0].client("bob")
    wait_until(lambda: len(getattr(bob.entry("profile"), "siblings", [])) == 2)
    before, page = bob.fields("profile"), shown.page
    (other,) = {"poetry", "mathematics"} - {one.value for one in before}
    shown.open("state/profile", "text=3 values were written at the same time")
    assert "born in" not in page.locator(".value ins").all_inner_texts()
    page.locator(".value", has_text=f"born in {other}").get_by_text("keep this one").click()
    page.wait_for_selector("text=2 values were written at the same time")
    assert bob.get("profile")["of"] == f"born in {other}"
    page.locator(".value", has=page.locator("ins", has_text=other)).get_by_text("keep this one").click()
    page.wait_for_selector("text=values were written at the same time", state="detached")
    assert bob.get("profile") == {"field": other, "of": f"born in {other}"}


def test_news_come_by_themselves_but_not_under_the_pointer(pair: Cluster, shown: Screen) -> None:
    page, bob = shown.page, pair[1].client("bob")
    bob.set("a", 1)
    shown.open("state", "ul.list >> text=a")
    page.mouse.move(5, 5)
    bob.set("b", 1)
    page.wait_for_selector("ul.list >> text=b")
    page.locator("ul.list").hover()
    bob.set("c", 1)
    pair[0].client().get("c", after=bob.last_token)
    page.wait_for_timeout(2000)
    assert page.locator("ul.list >> text=c").count() == 0
    page.mouse.move(5, 5)
    page.wait_for_selector("ul.list >> text=c")

    # The stream of news comes back after a laptop's sleep: what somebody writes stays.
    page.get_by_role("button", name="new key").click()
    page.get_by_label("key", exact=True).fill("half a word")
    page.evaluate("window.news.dispatchEvent(new MessageEvent('hello', {data: JSON.stringify({agent: 'ann anew'})}))")
    page.wait_for_selector("#where >> text=ann anew")
    assert page.get_by_label("key", exact=True).input_value() == "half a word"

    shown.open("fleet", "svg.fleet")
    page.wait_for_selector("svg.fleet line:not(.bad)", state="attached")
    pair.cut(0, 1)
    page.wait_for_selector("svg.fleet line.bad", state="attached")
    page.wait_for_selector("section >> text=down")
    pair.heal()
    page.wait_for_selector("svg.fleet line:not(.bad)", state="attached")
    page.get_by_role("button", name="ask the doctor").click()
    page.wait_for_selector("text=/The doctor found/")
    pair[0].kill()
    page.wait_for_selector("text=The daemon does not answer")
    pair[0].start()
    page.wait_for_selector("text=The daemon does not answer", state="detached")


def test_a_page_that_is_opened_while_the_daemon_is_away(pair: Cluster, shown: Screen) -> None:
    """It says in the place of each screen what is the matter, and comes by itself."""
    pair[0].client("bob").set("plan/goal", "ship")
    page = shown.page
    pair[0].stop()
    page.reload()
    page.wait_for_selector("main h1 >> text=The daemon does not answer")
    page.locator("nav >> text=State").click()
    page.wait_for_selector("nav a[aria-current] >> text=State")
    page.wait_for_selector("main h1 >> text=The daemon does not answer")
    assert page.locator("main h1").count() == 1
    pair[0].start()
    page.wait_for_selector("ul.list >> text=plan/")
    assert page.locator("main >> text=The daemon does not answer").count() == 0


def test_what_crdtsync_keeps_is_folded(pair: Cluster, shown: Screen) -> None:
    pair[0].client("bob").set("plan/goal", "ship")
    pair[0].client("bob").claim("job", keep=False).acquire()
    shown.open("state", "ul.list >> text=plan/")
    folded = shown.page.locator("summary", has_text="kept by crdtsync")
    folded.wait_for()
    assert not shown.page.get_by_role("button", name="claims/").is_visible()
    folded.click()
    shown.page.get_by_role("button", name="claims/").click()
    shown.page.wait_for_selector("ul.list >> text=job")


def test_time_and_work(pair: Cluster, shown: Screen) -> None:
    fill(pair)
    page, bob = shown.page, pair[0].client("bob")
    bob.set("plan/goal", {"ship": False})
    shown.open("time", "text=then")
    page.get_by_role("button", name="look").click()
    page.get_by_role("button", name="what is different now").click()
    page.wait_for_selector("ins >> text=false")
    page.get_by_role("button", name="what would going back do").click()
    page.get_by_role("button", name="Go back to").click()
    wait_until(lambda: bob.get("plan/goal") == {"ship": True})

    page.wait_for_selector("text=It brought")

    keys, slider = page.get_by_label("Keys", exact=True), page.get_by_label("how long ago")
    slider.press("Home")
    keys.get_by_text("Nothing was here then.").wait_for()
    slider.press("End")
    keys.get_by_text("plan/").wait_for()
    slider.click(position={"x": 9, "y": 5})
    keys.get_by_text("Nothing was here then.").wait_for()
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 9, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"], box["y"] + 5, steps=5)
    page.mouse.up()
    keys.get_by_text("plan/").wait_for()

    eve = pair[0].client("eve")
    eve.set("eve/nonsense", 1)
    eve.set("plan/goal", "nonsense")
    page.get_by_label("agent whose work is taken back").fill("eve")
    page.get_by_role("button", name="what would undoing its work do").click()
    page.wait_for_selector("text=It would bring 0 keys back and remove 1, and leave 1 alone.")
    assert bob.get("eve/nonsense") == 1
    page.get_by_role("button", name="Undo eve").click()
    page.wait_for_selector("text=It brought 0 keys back and removed 1")
    assert (bob.get("eve/nonsense"), bob.get("plan/goal")) == (None, "nonsense"), "others wrote to it, too"

    with pytest.raises(Exception, match="nobody has answered"):
        bob.ask("deploy", "Ship it?", options=["yes", "no"], timeout=0)
    shown.open("work", "text=Ship it?")
    page.get_by_role("button", name="yes").click()
    assert bob.ask("deploy") == "yes"
    page.get_by_role("button", name="free").click()
    wait_until(lambda: bob.claims() == [])
    page.wait_for_selector("text=Nothing is claimed.")


def test_what_was_asked_for_last_is_shown(pair: Cluster, shown: Screen) -> None:
    """Also if it is answered first."""
    fill(pair)
    page, bob = shown.page, pair[0].client("bob")
    bob.set("plan/goal", {"ship": False})
    bob.set("later/one", "words")
    shown.open("time", "text=then")
    with late(page, "tree"):
        with page.expect_request("**/api/tree"):  # it asks a moment after the click
            page.get_by_role("button", name="look").click()
        page.get_by_role("button", name="what is different now").click()
        page.wait_for_selector("ins >> text=false")
    page.wait_for_selector("section[aria-label=Keys] >> text=later/", state="detached")
    assert page.locator("ins >> text=false").count() == 1
    slider = page.get_by_label("how long ago")
    with late(page, "restore"):
        page.get_by_role("button", name="what would going back do").click()
        slider.press("Home")
    assert page.get_by_role("button", name="Go back to").count() == 0, "it would go back to another time"
    page.wait_for_selector("section[aria-label=Keys] >> text=plan/", state="detached")
    slider.press("End")
    with late(page, "entry"):
        page.get_by_role("button", name="plan/").click()
        page.get_by_role("button", name="goal").click()
        page.get_by_role("button", name="up from plan/").click()
        page.get_by_role("button", name="findings").click()
        page.wait_for_selector("h2 >> text=findings")
    assert page.locator("h2 >> text=findings").count() == 1

    shown.open("state", "ul.list >> text=findings")
    with late(page, "search"):
        page.get_by_label("search words").fill("words")
        page.get_by_role("button", name="search").click()
        page.locator("ul.list >> text=findings").click()
        page.wait_for_selector("section[aria-label=Value]")
    assert page.locator("section[aria-label=Value]").count() == 1
    shown.open("context", "form")
    with late(page, "view"):
        for prefix in ("plan/", "later/"):
            page.get_by_label("keys that begin with").fill(prefix)
            page.get_by_role("button", name="look").click()
        page.wait_for_selector("pre >> text=later/one")
    assert page.locator("pre >> text=later/one").count() == 1


def test_a_view_without_room_says_that_nothing_fits(pair: Cluster, shown: Screen) -> None:
    pair[0].client("bob").set("plan/goal", "word " * 500)
    shown.open("context", "form")
    shown.page.get_by_label("keys that begin with").fill("plan/")
    shown.page.get_by_label("tokens", exact=True).fill("50")
    shown.page.get_by_role("button", name="look").click()
    shown.page.wait_for_selector("text=/No key fits|shortened/")
    assert shown.page.get_by_text("There is nothing under these keys").count() == 0


def test_a_picture_is_shown_and_a_copy_is_made_and_merged(pair: Cluster, shown: Screen) -> None:
    page, bob = shown.page, pair[0].client("bob")
    bob.put_blob("files/dot", PNG, media_type="image/png")
    bob.set("plan/goal", 1)
    shown.open("state/files%2Fdot", "main img")
    page.wait_for_function("document.querySelector('main img').naturalWidth === 1")
    shown.open("time", "text=Checkpoints")
    page.get_by_label("name of the copy").fill("trial")
    page.get_by_role("button", name="try out in a copy").click()
    page.wait_for_selector("header option >> text=trial", state="attached")
    bob.session(space="trial").set("plan/goal", 2)
    page.get_by_role("button", name="what would merging it back do").click()
    page.get_by_role("button", name="Merge trial back").click()
    wait_until(lambda: bob.get("plan/goal") == 2)


def test_what_agents_write_is_text(pair: Cluster, shown: Screen) -> None:
    state = pair[0].client("<img src=x onerror=alert(4)>")
    state.checkpoint("evil", note=HOSTILE)
    key = "evil/" + HOSTILE.replace("\x1b", "").replace("\u2028", "")
    state.set(key, {HOSTILE: [HOSTILE]})
    state.put_task("tasks/evil", HOSTILE)
    with pytest.raises(Exception, match="nobody has answered"):
        state.ask("evil", HOSTILE, options=[HOSTILE], context=HOSTILE, timeout=0)
    state.set("evil/long", "x" * 1_000_000)
    shown.open(f"state/{quote(key, safe='')}", "pre >> text=U+202E")
    assert shown.page.locator("main img, main script").count() == 0
    assert r"\u001b" in shown.page.inner_text("main"), "as JSON has it"
    shown.open("state/evil%2Flong", "text=the first part of 1,000,000 characters")
    assert shown.page.get_by_role("button", name="edit").count() == 0, "it would write back what is shown of it"
    state.append("evil/log", "\n".join([HOSTILE, "y" * 900_000]))
    shown.open("state/evil%2Flog", "pre >> text=U+202E")
    state.put_blob("evil/drawing", f"<svg onload='alert(3)'>{HOSTILE}</svg>".encode(), media_type="image/svg+xml")
    state.put_blob("evil/words", HOSTILE.encode(), media_type="text/html")
    shown.open("state/evil%2Fdrawing", "text=save it")
    shown.open("state/evil%2Fwords", "text=look into it")
    shown.page.get_by_role("button", name="look into it").click()
    shown.page.wait_for_selector("pre >> text=U+202E")
    state.set("evil/names", {"$cut": None})
    state.put_task("tasks/names", {"$bytes": None})
    shown.open("state/evil%2Fnames", r'pre >> text=/"\$cut": null/')
    shown.page.get_by_role("button", name="edit").click()
    shown.page.get_by_role("button", name="save").click()
    shown.page.wait_for_selector("text=#2")
    assert state.get("evil/names") == {"$cut": None}, "as it was"
    shown.open("constructor", SCREENS["fleet"])
    shown.open("state/%E0%A4", "text=This key has no value now.")
    for name, wanted in SCREENS.items():
        shown.open(name, wanted)
        assert shown.page.locator("main img, main script").count() == 0
    shown.open("time", "table >> text=U+202E")
    shown.page.get_by_role("button", name="look").click()
    shown.page.get_by_role("button", name="what is different now").click()
    shown.page.wait_for_selector("ins >> text=U+202E")
    shown.page.get_by_role("button", name="what would going back do").click()
    shown.page.wait_for_selector("td >> text=U+202E")
    shown.open("context", "form")
    shown.page.get_by_label("keys that begin with").fill("evil/")
    shown.page.get_by_role("button", name="look").click()
    shown.page.wait_for_selector("pre >> text=<img src=x onerror=alert(1)>")
    assert shown.page.locator("main img, main script").count() == 0
    assert shown.page.locator("bdi >> text=<img src=x").count() > 0


def test_a_session_is_followed_as_it_grows(
    pair: Cluster, shown: Screen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    state, page = pair[0].client("ann"), shown.page
    turns = [(f"question {number}", f"answer {number}") for number in range(60)] + [(HOSTILE, HOSTILE)]
    saved_session(state, tmp_path / "home", turns)
    shown.open(f"sessions/{SESSION}", "text=Turn 61")
    assert page.locator("main img, main script").count() == 0
    assert page.locator("article, .turn").count() == 100
    assert page.locator(".turn details[open]").count() == 0, "calls and results are folded"
    page.get_by_role("button", name="earlier").click()
    page.wait_for_selector("text=question 30")
    page.get_by_role("button", name="later").last.click()
    page.wait_for_selector("text=Turn 61")
    page.evaluate("document.querySelector('.turn').dataset.mine = 'kept'")
    saved_session(state, tmp_path / "home", [*turns, ("and now?", "done")])
    page.wait_for_selector("text=and now?")
    assert page.locator("[data-mine=kept]").count() == 1, "what is read is not drawn anew"

    page.locator(".turn", has_text="Turn 62").get_by_role("button", name="leave out").click()
    page.wait_for_selector("text=Left out of what is handed over: 1 turn (62).")
    page.get_by_role("button", name="hand over to codex").click()
    page.get_by_role("button", name="make it").click()
    page.wait_for_selector("text=Go on with it:")
    assert "codex resume" in page.inner_text("section[aria-label='Hand-over']")

    state.set("plan/goal", "ship")
    shown.open("context", "form")
    page.get_by_label("keys that begin with").fill("plan/")
    page.get_by_role("button", name="look").click()
    page.wait_for_selector("meter")
    page.wait_for_selector("text=Nothing was left out")

    saved_session(state, tmp_path / "home", [("a long line", "x" * (1 << 20))])
    shown.open(f"sessions/{SESSION}", "text=a long line")
    page.locator(".turn", has_text="xxx").get_by_role("button", name="more of 1,048,576 characters").first.click()
    page.wait_for_selector("text=the first part of 1,048,576 characters")


def test_by_the_keyboard_alone_and_in_the_zone_of_the_reader(
    pair: Cluster, shown: Screen, browser: Browser, tmp_path: Path
) -> None:
    state = pair[0].client("bob")
    state.set("plan/goal", "ship")
    page = shown.page

    def press_until(selector: str) -> None:
        for _ in range(60):
            if page.locator(f"{selector}:focus").count():
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"the keyboard does not come to {selector}")

    shown.open("work", ".board")
    press_until(".skip")
    page.keyboard.press("Enter")
    page.wait_for_selector("main:focus")
    assert page.url.endswith("#/work")
    shown.open("fleet", "svg.fleet")
    press_until("nav a[href='#/state']")
    page.keyboard.press("Enter")
    page.wait_for_selector("ul.list >> text=plan/")
    press_until("ul.list button")
    page.keyboard.press("Enter")
    page.wait_for_selector("ul.list >> text=goal")
    press_until("ul.list button")
    page.keyboard.press("Enter")
    page.wait_for_selector("section[aria-label=Value]")
    press_until("section[aria-label=Value] button")
    page.keyboard.press("Enter")
    page.wait_for_selector("textarea:focus")
    page.keyboard.press("Control+a")
    page.keyboard.type('"by keys"')
    page.keyboard.press("Control+Enter")
    wait_until(lambda: state.get("plan/goal") == "by keys")

    with Shell(pair[0].socket, tmp_path).start("ui", "--listen", "0") as run:
        context = browser.new_context(timezone_id="Asia/Kolkata", locale="en-GB")
        try:
            away = Screen(context, run)
            away.open("state/plan%2Fgoal", "section[aria-label=Value] time")
            assert "GMT+5:30" in away.page.locator("section[aria-label=Value] time").first.get_attribute("title")  # type: ignore[operator]
            away.open("time", "input[type=range]")
            away.page.get_by_label("how long ago").press("Home")
            away.page.wait_for_function("document.querySelector('strong').textContent !== 'now'")
            label = datetime.strptime(away.page.inner_text("strong"), "%d %b %Y, %H:%M:%S")  # noqa: DTZ007
            away_now = datetime.now(timezone(timedelta(hours=5, minutes=30))).replace(tzinfo=None)
            assert timedelta(minutes=59) < away_now - label < timedelta(minutes=90)
        finally:
            context.close()


def test_other_sites_and_ports_get_nothing_and_no_cookie(pair: Cluster, shown: Screen, tmp_path: Path) -> None:
    """A page of another program on this machine, which the user has open in the same browser."""
    state = pair[0].client("bob")
    state.set("a", 1)
    heard: list[str] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>other</title>")

        def log_message(self, *_: object) -> None:
            pass

    place = shown.page.evaluate("localStorage.getItem('place')")
    (cookie,) = shown.context.cookies(f"{shown.address}{place.strip('/')}/")
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", place)
    assert shown.page.evaluate("document.cookie") == ""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    write = {"key": "a", "value": 2, "version": state.entry("a").version}  # type: ignore[union-attr]
    attempts = """async ([address, place, body]) => {
      const outcomes = [];
      for (const [path, options] of [
        [`${place}/api/write`, {method: "POST", body}], [`${place}/api/write`, {method: "POST", body, mode: "no-cors"}],
        [`${place}/api/spaces`, {method: "POST", body: "{}"}], ["login", {method: "POST", body: "{}"}], ["", {}],
      ]) {
        try { outcomes.push((await (await fetch(address + path, {credentials: "include", ...options})).text())); }
        catch (error) { outcomes.push("refused"); }
      }
      const frame = document.createElement("iframe");
      frame.src = address;
      await new Promise((done) => { frame.onload = done; frame.onerror = done; document.body.append(frame); });
      try { outcomes.push(frame.contentDocument.title); } catch { outcomes.push("refused"); }
      const form = Object.assign(document.createElement("form"), {
        method: "post", action: `${address}${place}/api/write`, enctype: "text/plain", target: "_blank",
      });
      form.append(Object.assign(document.createElement("input"), {name: body.slice(0, -1) + ', "x": "', value: '"}'}));
      document.body.append(form);
      form.submit();
      return outcomes;
    }"""
    beside(server.serve_forever)
    try:
        for host in ("127.0.0.1", "localhost"):
            page = shown.context.new_page()
            page.goto(f"http://{host}:{server.server_port}/")
            outcomes = page.evaluate(attempts, [shown.address, place.strip("/"), json.dumps(write)])
            assert {one for one in outcomes if one} <= {"refused"}, outcomes
            page.close()
    finally:
        server.shutdown()
        server.server_close()
    assert heard
    assert not any("crdtsync" in cookie for cookie in heard)
    assert state.get("a") == 1

    # A name of somebody else's that leads here, and a cookie of before.
    page = shown.context.new_page()
    page.goto(f"http://evil.test:{shown.address.strip('/').rpartition(':')[2]}/#{shown.word}")
    assert page.inner_text("body").strip() == "this server does not go by that name"
    page.close()
    with Shell(pair[0].socket, tmp_path).start("ui", "--listen", "0", "--agent", "ann") as run:
        address = run.line().strip().split("#")[0]
        page = shown.context.new_page()
        page.goto(address)
        page.evaluate("(place) => localStorage.setItem('place', place)", place)
        page.reload()
        page.wait_for_selector("text=This browser is not let in")
        page.close()


def test_a_stolen_address_and_another_browser_are_refused(shown: Screen, browser: Browser) -> None:
    for address in (shown.address, f"{shown.address}#{shown.word}"):
        context = browser.new_context()
        try:
            page = context.new_page()
            page.set_default_timeout(WAIT_MS)
            page.goto(address)
            page.wait_for_selector("text=This browser is not let in")
            if address != shown.address:
                page.goto(shown.run.line().strip())  # the newest one, in the same tab
                page.wait_for_selector("svg.fleet")
        finally:
            context.close()
