"""Takes the pictures of ``docs/images`` anew: ``./dev pictures``.

Three real daemons hold what a small team of agents may have; Chromium shows each screen wide, narrow and dark.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Any

from crdtsync.context import Views
from crdtsync.errors import Timeout
from crdtsync.sessions import Sessions
from tests.harness import Cluster, wait_until
from tests.harness.browser import chromium
from tests.harness.shell import Shell
from tests.harness.workers import beside

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZES = {"": (1280, 800), "-narrow": (400, 800)}
SESSION = "f6c34a6a-0000-4000-8000-000000000001"
SCREENS = {
    "fleet": ("fleet", "svg.fleet line.bad"), "state": ("state/plan%2Fgoal", "text=keep this one"),
    "time": ("time", "text=before-review"), "work": ("work", "text=Deploy it"),
    "sessions": (f"sessions/{SESSION}", "text=Turn 2"), "context": ("context/reviewer", "meter"),
}  # fmt: skip
"""The name of each picture, with the screen's address and what it waits for."""
ASKED = [
    ("The importer drops rows whose date has no time zone. Find out why, and mend it.", "grep -rn strptime importer/",
     "importer/dates.py:14:    return datetime.strptime(words, FORMAT).astimezone(UTC)",
     "`strptime` gives a time without a zone: I give such rows the zone of the export, and refuse those without any."),
    ("Is there a faster parser? Just look, change nothing.", "pip index versions ciso8601", "ciso8601 (2.3.2)",
     "There is one, but dates take 2 % of the time: it is not worth a dependency."),
    ("Then add a test for the switch to summer time.", "pytest -q tests/test_dates.py", "5 passed in 0.31s",
     "The test is there: an hour that comes twice is told apart by its offset."),
]  # fmt: skip


def session(state: Any, home: Path) -> None:
    """A session of Claude Code, saved; its second turn is left out of what is handed over."""
    lines, parent = [], None
    for turn, (question, command, output, answer) in enumerate(ASKED):
        for name, role, content in (
            (f"q{turn}", "user", question),
            (f"c{turn}", "assistant", [{"type": "tool_use", "id": f"t{turn}", "name": "Bash",
                                        "input": {"command": command}}]),
            (f"r{turn}", "user", [{"type": "tool_result", "tool_use_id": f"t{turn}", "content": output}]),
            (f"a{turn}", "assistant", [{"type": "text", "text": answer}]),
        ):  # fmt: skip
            message = {"role": role, "content": content}
            lines.append({"type": role, "uuid": name, "parentUuid": parent, "message": message, "sessionId": SESSION,
                          "cwd": "/srv/importer", "version": "2.1.330"})  # fmt: skip
            parent = name
    file = home / ".claude" / "projects" / "-srv-importer" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    saved = Sessions(state)
    saved.save(SESSION)
    saved.exclude(SESSION, "2")


def fill(fleet: Cluster, home: Path, is_over: Event) -> None:
    """What the screens show; one task is worked on until ``is_over``. At the end one of the hosts is cut off."""
    planner, researcher, critic = (daemon.client(name) for daemon, name in zip(fleet, AGENTS, strict=True))
    goal = {"text": "ship the importer", "by": "friday", "owner": "planner"}
    planner.set("plan/goal", goal)
    for number, step in enumerate(("read the export", "mend the dates", "measure it"), 1):
        planner.set(f"plan/steps/{number}", step)
    planner.checkpoint("before-review", note="all agreed on the plan")
    researcher.append("findings", "The old export writes local time, without a zone.")
    researcher.text("notes/dates").set("Rows of before 2019 have no zone.\nThe customer says: Europe/Berlin.\n")
    for number in range(1, 5):
        researcher.set(f"measurements/run-{number}", {"rows": 4413, "seconds": round(2.9 - number / 5, 1)})
    tasks(planner, critic, researcher)
    beside(researcher.work("tasks/3-write-the-changelog", lambda _: is_over.wait()).run)
    wait_until(lambda: any(task.state == "claimed" for task in planner.tasks("tasks/")))
    question(critic, "deploy", "The import is measured: 4,413 rows in 2.1 s. Deploy it to staging now?",
             options=["yes", "tomorrow"], context={"rows": 4413, "errors": 0})  # fmt: skip
    question(researcher, "zone", "Which zone do rows of the old export have?")
    session(researcher, home)
    Views(planner).define("reviewer", ["findings", "measurements/", "notes/", "plan/"], budget_tokens=260)
    fleet.cut(0, 2)
    fleet.cut(1, 2)
    fleet.wait_parted(0, 2)
    planner.set("plan/goal", goal | {"by": "tuesday"})
    critic.set("plan/goal", {"text": "ship the importer with its docs", "by": "monday", "owner": "critic"})
    fleet.heal()
    wait_until(planner.conflicts)
    fleet.isolate(2)
    fleet.wait_parted(0, 2)


AGENTS = ("planner", "researcher", "critic")


def tasks(planner: Any, critic: Any, researcher: Any) -> None:
    """On the board: done, failed, and to do."""
    planner.put_task("tasks/1-mend-the-dates", {"file": "importer/dates.py"})
    critic.work("tasks/**", lambda _: {"rows": 4413}).run(drain=True)
    planner.put_task("tasks/2-read-the-archive", {"file": "archive/2017.zip"}, attempts=1)

    def fail(_: Any) -> None:
        raise ValueError("archive/2017.zip is encrypted")

    researcher.work("tasks/**", fail).run(drain=True)
    planner.put_task("tasks/3-write-the-changelog", {"since": "0.4"})
    planner.put_task("tasks/4-answer-the-ticket", {"ticket": 1742})
    planner.put_task("tasks/5-measure-again", {"rows": 4413})


def question(state: Any, name: str, words: str, **given: Any) -> None:
    with suppress(Timeout):
        state.ask(name, words, timeout=0, **given)


def look(page: Page, name: str) -> None:
    """On the screens where there is something to do first."""
    if name == "time":
        page.get_by_role("button", name="look").click()
        page.get_by_role("button", name="what is different now").click()
        page.wait_for_selector("ins")
        page.mouse.move(5, 5)


def take(browser: Browser, start: Callable[[], str], into: Path, wanted: list[str]) -> None:
    """Each screen: ``page-NAME.png`` is wide and light, ``-narrow`` and ``-dark`` differ in that alone."""
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light", timezone_id="UTC")
        page = context.new_page()
        page.goto(start())
        page.wait_for_selector("nav a")
        base = page.url.split("#")[0]
        for name in wanted:
            place, sign = SCREENS[name]
            for size, (width, height) in SIZES.items():
                page.set_viewport_size({"width": width, "height": height})
                page.goto("about:blank")
                page.goto(f"{base}#/{place}")
                page.wait_for_selector(sign, state="attached")
                look(page, name)
                if size and scheme == "dark":
                    continue
                said = size or ("-dark" if scheme == "dark" else "")
                end = page.evaluate("document.querySelector('main > *').getBoundingClientRect().bottom + 24")
                page.screenshot(
                    path=into / f"page-{name}{said}.png",
                    clip={"x": 0, "y": 0, "width": width, "height": min(height, end)},
                )
        context.close()


def main(wanted: list[str]) -> None:
    """Of all screens, or of those that are named."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory()))
        os.environ |= {"HOME": str(home), "LOGNAME": "ann"}
        os.environ.pop("CLAUDE_CONFIG_DIR", None)
        browser = stack.enter_context(chromium())
        fleet = stack.enter_context(Cluster(3))
        is_over = Event()
        stack.callback(is_over.set)
        fill(fleet, home, is_over)
        card = fleet[1].client("researcher").present(role="reader of old exports", status="waits for an answer")
        stack.enter_context(card)
        run = stack.enter_context(Shell(fleet[0].socket, home).start("ui", "--listen", "0", "--agent", "ann"))
        take(browser, lambda: run.line().strip(), IMAGES, wanted or [*SCREENS])


if __name__ == "__main__":
    main(sys.argv[1:])
