"""The examples of the documentation that are no story from beginning to end: each is run by itself.

Console blocks are followed by ``test_documentation`` and ``test_cli``, commands for root by ``test_boot``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from crdtsyncd.config.model import load_config

from crdtsync import Client
from tests.harness import Cluster, Daemon, wait_until
from tests.harness.shell import Shell
from tests.integration.test_clusters import Hosts, hosts, invite

__all__ = ["hosts"]

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
TOLD = ("README.md", "docs/tutorial.md", "docs/how-to/frameworks.md", "docs/how-to/blackboard.md")
"""Pages whose programs build on each other, or need a framework or several hosts: other tests run these."""
PAGES = sorted(str(page.relative_to(ROOT)) for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def text(page: str) -> str:
    return (ROOT / page).read_text()


def fenced(language: str) -> list[tuple[str, str]]:
    """All blocks of a language: the page with the line, and the code."""
    found = []
    for page in PAGES:
        for block in re.finditer(rf"^```{language}\n(.*?)^```$", text(page), re.MULTILINE | re.DOTALL):
            line = text(page)[: block.start()].count("\n") + 1
            found.append((f"{page}:{line}", block[1]))
    return found


class FirstOf:
    """A watch that ends after its first event: an example's goes on for ever."""

    def __init__(self, watch: Any) -> None:
        self._watch = watch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()

    def __iter__(self) -> Iterator[Any]:
        yield next(iter(self._watch))


@pytest.fixture
def prepared(pair: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the examples take for granted: a daemon that is found, keys in conflict, an agent's key, some names."""
    shell = Shell(pair[0].socket, tmp_path)
    (tmp_path / "critic.key").write_text(shell.ok("agent", "create", "critic"))
    shell.ok("access", "grant", "agent:critic", "read", "plan/**")
    monkeypatch.chdir(tmp_path)
    first, second = pair[0].client(), pair[1].client()
    pair.cut(0, 1)
    for state, goal in ((first, "ship"), (second, "wait")):
        state.set("plan/goal", goal)
        state.set("decisions/name", goal)
        state.set("findings/cache/tags", [goal])
    pair.heal()
    wait_until(lambda: len(first.conflicts()) == 3, what="the conflicts are here")
    stored = first.set("plan/owner", "ada")
    first.set("plan/step", 1)
    monkeypatch.setenv("CRDTSYNC_SOCKET", str(pair[0].socket))
    watch = Client.watch
    monkeypatch.setattr(Client, "watch", lambda *args, **options: FirstOf(watch(*args, **options)))
    is_settled = lambda: not first.conflicts("findings/")  # noqa: E731
    return {
        "state": first, "stored": stored, "act": lambda event: event, "Client": Client,
        "work": lambda: wait_until(is_settled, what="the resolver has done its work"),
        "tokens": ("The ", "first ", "step: ", "TODO"),
    }  # fmt: skip


def test_the_programs_run(prepared: dict[str, Any]) -> None:
    programs = [(where, code) for where, code in fenced("python") if not where.startswith(TOLD)]
    assert len(programs) >= 12
    for where, code in programs:
        try:
            exec(compile(code, where, "exec", dont_inherit=True), dict(prepared))
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


def test_the_settings_are_settings(tmp_path: Path) -> None:
    blocks = fenced("toml")
    assert len(blocks) >= 2
    for number, (_, code) in enumerate(blocks):
        (tmp_path / f"{number}.toml").write_text(code)
        load_config(tmp_path / f"{number}.toml", {})


def test_the_commands_run(daemon: Daemon, tmp_path: Path) -> None:
    """Those of pages that show single commands; what is printed is compared where the page shows it."""
    shell = Shell(daemon.socket, tmp_path)
    for where, code in fenced("sh"):
        done = subprocess.run(
            ["bash", "-ec", code],
            env=shell.environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{where}: {done.stderr}"
    for command in re.findall(
        r"^    crdtsync (schema .*|metrics)$",
        text("docs/how-to/model-data.md") + text("docs/reference/metrics.md"),
        re.MULTILINE,
    ):
        assert run(shell, command)[0] == 0, command
    shown = re.search(
        r"^    \$ crdtsync (get .*)\n    (crdtsync: .*)\n", text("docs/reference/errors.md"), re.MULTILINE
    )
    assert shown is not None
    assert run(shell, shown[1]) == (1, shown[2])
    assert f"\n    {run(shell, f'{shown[1]} --json')[1]}\n" in text("docs/reference/errors.md")


def test_the_resolver_of_the_page_settles_conflicts(pair: Cluster, tmp_path: Path) -> None:
    """With what ``jq`` does in it, for not everybody has that."""
    (command,) = re.findall(r"^    (crdtsync resolver .*)$", text("docs/how-to/resolve-conflicts.md"), re.MULTILINE)
    shell = Shell(pair[0].socket, tmp_path)
    jq = tmp_path / "bin" / "jq"
    jq.write_text(f"#!{sys.executable}\n{_JQ}")
    jq.chmod(0o755)
    program = subprocess.Popen(["bash", "-c", f"exec {command}"], env=shell.environment, cwd=tmp_path)
    try:
        pair.cut(0, 1)
        for daemon, tags in ((pair[0], ["a"]), (pair[1], ["b"])):
            daemon.client().set("findings/cache/tags", tags)
        pair.heal()
        wait_until(lambda: pair[1].client().get("findings/cache/tags") == ["a", "b"])
    finally:
        program.kill()
        program.wait()


_JQ = """
import json, sys
assert sys.argv[1:] == ["-c", "[.value, .siblings[].value] | add | unique"], sys.argv
asked = json.load(sys.stdin)
print(json.dumps(sorted({tag for each in (asked, *asked["siblings"]) for tag in each["value"]})))
"""


def test_two_machines_become_a_cluster_and_one_again(hosts: Hosts, tmp_path: Path) -> None:
    page = text("docs/how-to/cluster.md")
    commands = re.findall(r"^    (?:\$ )?crdtsync (cluster .*)$", page, re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["init", "invite", "join", "members", "remove"]
    a, b = hosts.start("host-a", listen=[]), hosts.start("host-b", listens=False)
    word = ""
    on_a, on_b = Shell(a.socket, tmp_path), Shell(b.socket, tmp_path)
    for command in commands:
        asked = command.replace("0.0.0.0:7420", a.address)  # on loopback, as all here
        if command == "cluster invite":
            word = invite(a)
        elif command.startswith("cluster join"):
            assert run(on_b, f"cluster join {word}")[0] == 0
            a.client().set("plan", "ship", w="all")
            assert b.client().get("plan") == "ship"
        elif command == "cluster members":
            said = run(on_a, command)[1]
            heads = re.search(r"^    (MEMBER .*)$", page, re.MULTILINE)
            assert heads is not None
            assert said.splitlines()[0].split() == heads[1].split()
        else:
            assert run(on_a, asked)[0] == 0
    wait_until(lambda: b.alarms() == ["removed"], what="host-b knows that it was removed")


def run(shell: Shell, words: str) -> tuple[int, str]:
    """Exit status and what is printed, of one line as it is typed."""
    done = subprocess.run(
        ["bash", "-c", f"crdtsync {words}"],
        env=shell.environment | {"COLUMNS": "200"}, cwd=shell.directory,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.rstrip("\n")


def test_every_page_with_commands_is_run_somewhere() -> None:
    """Here, or in the test that is named."""
    elsewhere = {
        "docs/how-to/coding-agents.md": "cli, coding_agents, mcp",
        "docs/how-to/people-and-agents.md": "yjs_editors",
        "docs/how-to/run.md": "boot, startup, cli",
        "docs/how-to/take-a-session-along.md": "cli, sessions_of_agents",
        "docs/how-to/look-at-it.md": "ui",
        "docs/how-to/work-together.md": "claims, quorum, work",
        "README.md": "boot, clusters, coding_agents",
    }
    pages = (
        "reference/errors",
        "how-to/cluster",
        "how-to/hand-over",
        "how-to/model-data",
        "how-to/resolve-conflicts",
        "how-to/troubleshoot",
        "reference/metrics",
    )
    here = {f"docs/{name}.md" for name in pages}
    typed = re.compile(r"^    (\$ )?(sudo |crdtsyncd?\b|systemctl )", re.MULTILINE)
    reference = "docs/reference/command-line.md"  # forms of commands; its console blocks are run
    assert {page for page in PAGES if typed.search(text(page))} - {reference} == here | elsewhere.keys()
