"""Questions to people, presence and reactions over real daemons."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crdtsync import AsyncClient, Client
from crdtsync.client import Event, Session
from crdtsync.coordination import Reaction
from crdtsync.errors import InvalidRequest, Timeout, Unresolved, VersionMismatch
from tests.harness import Cluster, Daemon, wait_until
from tests.harness.shell import Running, Shell
from tests.harness.workers import beside

pytestmark = pytest.mark.integration


def test_a_question_is_answered_on_another_host_and_outlives_its_asker(pair: Cluster):
    asker, person = pair[0].client("flow"), pair[1].client("ann")
    with pytest.raises(Timeout, match="nobody has answered 'deploy' yet"):
        asker.ask("deploy", "Ship it?", options=["yes", "no"], context={"tests": "pass"}, timeout=0.1)
    (found,) = wait_until(person.asks)
    assert (found.name, found.question, found.options, found.agent) == ("deploy", "Ship it?", ("yes", "no"), "flow")
    with pytest.raises(InvalidRequest, match="'maybe' is no answer to 'deploy'"):
        person.answer("deploy", "maybe")
    with pytest.raises(InvalidRequest, match="nobody asks 'depoly'"):
        person.answer("depoly", "yes")
    answer = beside(asker.ask, "deploy")
    person.answer("deploy", "yes", note="the tests pass")
    assert answer.result() == "yes"
    with pytest.raises(VersionMismatch, match="'deploy' is answered already: 'yes' by ann on host-b"):
        person.answer("deploy", "no")
    assert person.asks() == []
    (kept,) = person.asks(answered=True)
    assert [(one.value, one.agent, one.note) for one in kept.answers] == [("yes", "ann", "the tests pass")]
    assert pair[1].client("flow").ask("deploy") == "yes", "it goes on where it is next started"
    assert asker.ask("deploy", "Ship it?", options=["yes", "no"]) == "yes"
    with pytest.raises(InvalidRequest, match="a list of answers"):
        asker.ask("other", "Ship it?", options="yes")
    for question, options in (("Drop all tables?", ["yes", "no"]), ("Ship it?", ["now", "yes"])):
        with pytest.raises(InvalidRequest, match=r"another question already: 'Ship it\?' \(yes, no\)"):
            asker.ask("deploy", question, options=options)
    assert asker.ask("later", "Now?", default="no", deadline=0.1) == "no"
    with pytest.raises(Timeout):
        asker.ask("deploy", "Ship it?", anew=True, timeout=0)
    for name, anew in (("deploy", True), ("depoly", False)):
        with pytest.raises(InvalidRequest, match="say the question"):
            asker.ask(name, anew=anew)
    assert [one.name for one in asker.asks()] == ["deploy"]


def test_two_answers_at_once_are_a_conflict_that_says_so(pair: Cluster):
    people = [daemon.client(name) for daemon, name in zip(pair, ("ann", "bob"), strict=True)]
    with pytest.raises(Timeout):
        people[0].ask("deploy", "Ship it?", timeout=0)
    wait_until(people[1].asks)
    pair.cut(0, 1)
    pair.wait_parted(0, 1)
    for person, value in zip(people, ("yes", "no"), strict=True):
        person.answer("deploy", value)
    pair.heal()
    wait_until(lambda: all(len(one.answers) == 2 for person in people for one in person.asks(answered=True)))
    with pytest.raises(Unresolved, match=r"answered at once with '.*' by .* on .*: settle it"):
        people[0].ask("deploy")
    assert len(people[1].asks()) == 1
    people[1].answer("deploy", "no", settle=True)
    wait_until(lambda: people[0].asks() == [])
    assert people[0].ask("deploy") == "no"


def shown(state: Client) -> set[tuple[str, str, str | None, str, tuple[str, ...]]]:
    return {(one.agent, one.node, one.role, one.status, one.claims) for one in state.who() if one.is_shown}


def test_who_is_here_is_seen_on_every_host_and_gone_with_its_connection(pair: Cluster, tmp_path: Path):
    looker = pair[0].client("looker")
    assert ("looker", False) in {(one.agent, one.is_shown) for one in looker.who()}
    program = (
        "from crdtsync import Client\nimport time\n"
        f"with Client({str(pair[1].socket)!r}, agent='ann') as state:\n"
        "    state.present(role='critic', status='reading')\n    state.claim('task/1').acquire()\n"
        "    print(flush=True)\n    time.sleep(600)\n"
    )
    with Running([sys.executable, "-c", program], dict(os.environ), tmp_path) as ann:
        ann.line()
        wait_until(lambda: shown(looker) == {("ann", "host-b", "critic", "reading", ("task/1",))})
        with pair[1].client("bob").present(role="coder") as card:
            card.update(status="testing")
            wait_until(lambda: ("bob", "host-b", "coder", "testing", ()) in shown(looker))
        wait_until(lambda: len(shown(looker)) == 1)
    wait_until(lambda: shown(looker) == set())
    pair[1].client("carl").present()
    wait_until(lambda: len(shown(looker)) == 1)
    pair[1].kill()
    wait_until(lambda: shown(looker) == set(), what="a host that is gone has nobody")


def test_a_card_that_others_could_not_read_or_that_is_closed_is_refused(daemon: Daemon):
    state = daemon.client("ann")
    unreadable: list[Any] = [{"role": 5}, {"status": 5}, {"status": None}]
    for options in unreadable:
        with pytest.raises(InvalidRequest):
            state.present(**options)
    with state.present(role="critic") as card:
        card.update(status="reading")
    with pytest.raises(InvalidRequest, match="closed"):
        card.update(status="writing")
    assert shown(state) == set()


def test_a_pattern_is_refused_where_one_name_is_meant_and_so_is_a_reaction_without_a_role(daemon: Daemon):
    state = daemon.client("ann")
    for refused in (
        lambda: state.claim("tasks/**"),
        lambda: state.put_task("tasks/*"),
        lambda: state.ask("tasks/*/ready", "Ready?"),
    ):
        with pytest.raises(InvalidRequest, match="is a pattern"):
            refused()
    assert (state.claims(), state.tasks(), state.asks()) == ([], [], [])
    with state.claim("tasks/a*b"):
        pass
    roles: list[Any] = ["", None, 5]
    for role in roles:
        with pytest.raises(InvalidRequest, match="has a role"):
            state.on("tasks/**", print, role=role)


def test_a_reaction_handles_each_change_once_in_the_fleet_and_goes_on_elsewhere(pair: Cluster):
    writer = pair[0].client("writer")
    handled: list[object] = []

    def handle(event: Event) -> None:
        handled.append(event.value)

    reactions = [daemon.client("analyst").on("findings/**", handle, role="analyst") for daemon in pair]
    runs = [beside(reaction.run) for reaction in reactions]
    wait_until(lambda: writer.get("progress/analyst"))
    for n in range(5):
        writer.set(f"findings/{n}", n)
    wait_until(lambda: handled == [0, 1, 2, 3, 4])
    active = next(n for n, reaction in enumerate(reactions) if reaction.handled)
    reactions[active].stop()
    runs[active].result()
    writer.set("findings/5", 5)
    writer.set("other", 6)
    pair[0].client("analyst").set("findings/6", "by itself")
    writer.set("findings/7", 7)
    wait_until(lambda: handled == [0, 1, 2, 3, 4, 5, 7])
    reactions[1 - active].stop()
    runs[1 - active].result()

    def fail(event: Event) -> None:
        raise LookupError(event.key)

    writer.set("findings/8", 8)
    with pytest.raises(LookupError):
        pair[1].client("analyst").on("findings/**", fail, role="analyst").run()


def test_with_every_host_each_one_handles_each_change_once(pair: Cluster):
    writer = pair[0].client("writer")
    handled: list[list[object]] = [[], []]

    def reaction(n: int) -> Reaction:
        client = pair[n].client("analyst")
        return client.on("findings/**", lambda event: handled[n].append(event.value), role="a", every_host=True)

    reactions = [reaction(n) for n in (0, 0, 1)]
    runs = [beside(one.run) for one in reactions]
    progress = [f"progress/a/{daemon.status()['node']['id']}" for daemon in pair]
    wait_until(lambda: all(writer.get(key) for key in progress))
    for n in range(5):
        writer.set(f"findings/{n}", n)
    wait_until(lambda: handled == [[0, 1, 2, 3, 4]] * 2)
    for one, run in zip(reactions, runs, strict=True):
        one.stop()
        run.result()
    writer.set("findings/5", 5)
    again = reaction(1)
    run = beside(again.run)
    wait_until(lambda: handled[1] == [0, 1, 2, 3, 4, 5])
    again.stop()
    run.result()
    assert handled[0] == [0, 1, 2, 3, 4], "its host goes on where it was when it is started again"


def test_reactions_to_each_other_are_stopped_and_all_hosts_are_told(pair: Cluster):
    writer = pair[0].client("writer")
    handled: Counter[str] = Counter()

    def reaction(n: int, role: str, pattern: str, to: str) -> Reaction:
        state = pair[n].client(role)

        def handle(event: Event) -> None:
            handled[role] += 1
            state.set(f"{to}/{event.value}", event.value + 1)

        return state.on(pattern, handle, role=role, rounds=3)

    reactions = [
        reaction(0, "analyst", "findings/**", "plan"),
        reaction(1, "researcher", "plan/**", "findings"),
    ]
    runs = [beside(one.run) for one in reactions]
    wait_until(lambda: writer.get("progress/analyst") and writer.get("progress/researcher"))
    writer.set("findings/first", 0)
    alarm = wait_until(lambda: pair[1].client("looker").get("reactions.alarms/analyst"))
    assert (alarm["roles"], alarm["agent"], alarm["loops"]) == (["analyst", "researcher"], "researcher", 1)
    assert handled == {"analyst": 3, "researcher": 3}
    writer.set("findings/second", 100)
    wait_until(lambda: reactions[0].loops == 2)
    assert handled == {"analyst": 6, "researcher": 6}, "what somebody else begins is handled as before"
    for one, run in zip(reactions, runs, strict=True):
        one.stop()
        run.result()


def test_a_reaction_to_its_own_counter_and_set_is_a_loop_too(daemon: Daemon):
    state = daemon.client("bot")
    state.incr("loop/count", 1)
    state.add("loop/set", "first")

    def handle(event: Event) -> None:
        state.incr("loop/count", 1)
        state.add("loop/set", f"after {event.value}")

    reaction = state.on("loop/**", handle, role="bot", own=True, rounds=2)
    run = beside(reaction.run)
    wait_until(lambda: state.get("progress/bot"))
    daemon.client("ann").incr("loop/count", 1)
    wait_until(lambda: reaction.loops == 4, what="of one change two follow, of these four, and then no more")
    reaction.stop()
    run.result()
    assert reaction.handled == 3
    assert (state.get("loop/count"), len(state.members("loop/set"))) == (5, 4)


@pytest.mark.parametrize(
    "put, remove",
    [
        (lambda state: state.set("loop", 1), lambda state: state.delete("loop")),
        (lambda state: state.add("loop", 1), lambda state: state.discard("loop", 1)),
        (lambda state: state.merge("loop", {"a": 1}), lambda state: state.drop("loop", "a")),
    ],
    ids=["delete", "discard", "drop"],
)
def test_who_removes_what_comes_and_puts_what_goes_is_in_a_loop_too(
    daemon: Daemon, put: Callable[[Session], object], remove: Callable[[Session], object]
):
    state = daemon.client("bot")

    def handle(event: Event) -> None:
        (put if event.event == "delete" else remove)(state)

    reaction = state.on("loop", handle, role="bot", own=True, rounds=4)
    run = beside(reaction.run)
    wait_until(lambda: state.get("progress/bot"))
    put(daemon.client("ann"))
    wait_until(lambda: reaction.loops)
    reaction.stop()
    run.result()
    assert reaction.handled == 4
    assert state.get("loop"), "it was put once more after the second removal"


def test_reactions_to_everything_leave_the_records_of_reactions_alone(daemon: Daemon):
    writer = daemon.client("writer")
    seen: dict[str, list[object]] = {"one": [], "two": []}

    def reaction(role: str) -> Reaction:
        return daemon.client(role).on("**", lambda event: seen[role].append(event.key), role=role)

    reactions = [reaction(role) for role in seen]
    runs = [beside(one.run) for one in reactions]
    wait_until(lambda: writer.get("progress/one") and writer.get("progress/two"))
    keys = [f"key/{n}" for n in range(10)]
    for key in keys:
        writer.set(key, 1)
    wait_until(lambda: all(len(keys) <= len(each) for each in seen.values()) or any(run.done() for run in runs))
    assert seen == {"one": keys, "two": keys}
    for one, run in zip(reactions, runs, strict=True):
        one.stop()
        run.result()
    for role in seen:
        assert len(writer.history(f"progress/{role}", last=100)) <= 1 + len(keys)


def test_the_commands(daemon: Daemon, tmp_path: Path):
    shell = Shell(daemon.socket, tmp_path)
    assert shell("ask", "deploy", "Ship it?", "--option", "yes", "--option", "no", "--timeout", "100ms").status == 5
    assert "Ship it?" in shell.ok("asks")
    assert (shell("ask", "deploy", "--timeout", "100ms").status, shell("ask", "depoly").status) == (5, 4)
    assert shell("answer", "deploy", "maybe").status == 4
    shell.ok("answer", "deploy", "yes", "--note", "it works")
    assert shell("answer", "deploy", "no").status == 1
    assert [shell.ok(name) for name in ("asks", "claims", "tasks")] == ["no questions", "no claims", "no tasks"]
    assert shell.ok("ask", "deploy", "Ship it?") == "yes"
    assert json.loads(shell.ok("asks", "--all", "--json"))["answers"][0]["note"] == "it works"
    assert shell("ask", "by-default", "And now?", "--default", "yes").status == 2
    with pytest.raises(Timeout):
        daemon.client("flow").ask("count", "How many?", options=[1, 2], timeout=0.1)
    assert json.loads(shell.ok("answer", "count", "2", "--json")) == {"key": "count", "answer": 2}
    assert daemon.client("flow").ask("count") == 2, "the option, and not a text like it"
    with daemon.client("ann").present(role="critic", status="reading"):
        assert any(
            (row["agent"], row["role"]) == ("ann", "critic")
            for row in map(json.loads, shell.ok("who", "--json").splitlines())
        )
        assert "critic" in shell.ok("who")
    with shell.start("tasks", "--watch", "--json") as run:
        daemon.client("ann").put_task("tasks/1", 7)
        assert (run.event()["key"], daemon.client("ann").delete("tasks/1")) == ("tasks/1", True)
        daemon.client("ann").put_task("tasks/2", 8)
        assert run.event()["key"] == "tasks/2"
    with shell.start("asks", "--watch", "--remind", "0.1s", "--json") as run:
        with pytest.raises(Timeout):
            daemon.client("flow").ask("late", "Still there?", timeout=0.1)
        assert [run.event()["key"] for _ in range(3)] == ["late"] * 3, "it is the same, and is told again"
        daemon.client("ann").answer("late", "yes")
    with shell.start("who", "--watch") as run, daemon.client("ann").present(role="watched"):
        assert any("watched" in run.line() for _ in range(50))
    with shell.start(
        "on", "findings/*", "--role", "r", "--every-host", "--", "sh", "-c", 'grep -o \'"key": "[^"]*"\''
    ) as run:
        wait_until(lambda: daemon.client("writer").get(f"progress/r/{daemon.status()['node']['id']}"))
        daemon.client("writer").set("findings/1", 1)
        assert run.line() == '"key": "findings/1"\n'
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait() == 0
    with shell.start("on", "mine/*", "--role", "m", "--agent", "ann", "--", "true") as run:
        wait_until(lambda: daemon.client("writer").get("progress/m"))
        daemon.client("ann").set("mine/0", 1, meta={"caused_by": ["m"]})  # as the command itself does: no word of it
        daemon.client("ann").set("mine/1", 1)
        assert run.process.stderr is not None
        assert run.process.stderr.readline().startswith(b"crdtsync: mine/1 and other changes by ann are left alone")
    with shell.start("on", "bad/*", "--role", "b", "--", "sh", "-c", "exit 3") as run:
        wait_until(lambda: daemon.client("writer").get("progress/b"))
        daemon.client("writer").set("bad/1", 1)
        _, said = run.process.communicate(timeout=60)
        assert (run.process.returncode, said.decode()) == (
            3,
            "crdtsync: bad/1: 'sh' failed with status 3; this change comes again in the next run\n",
        )
    with shell.start("on", "plan/*", "--role", "p", "--", "sh", "-c", "echo $CRDTSYNC_CAUSED_BY") as run:
        wait_until(lambda: daemon.client("writer").get("progress/p"))
        daemon.client("writer").set("plan/1", 1, meta={"caused_by": ["r"]})
        assert run.line() == "r p\n"


async def test_the_same_for_asyncio(daemon: Daemon):
    async with AsyncClient(daemon.socket, agent="ann") as state:
        with pytest.raises(Timeout):
            await state.ask("deploy", "How many?", timeout=0)
        await state.answer("deploy", 7)
        assert await state.ask("deploy") == 7
        async with await state.present(role="critic") as card:
            await card.update(status="reading")
            assert [(one.role, one.status) for one in await state.who() if one.is_shown] == [("critic", "reading")]
        reaction = state.on("findings/*", lambda event: reaction.stop(), role="r", own=True)
        await state.set("progress/r", await state.now())
        await state.set("findings/1", 1)
        await reaction.run()
        assert reaction.handled == 1
