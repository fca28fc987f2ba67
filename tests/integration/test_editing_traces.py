"""Texts that several people edit at once come out the same on every host, and as their authors meant them.

Recorded sessions are replayed by authors at different daemons, each with a Yjs replica of their own that holds exactly
what they had seen (benchmarks/replay.py). They are not part of the project: CRDTSYNC_TRACES names a directory that has
them. A session made up here has the characters that the recorded ones lack.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks import make_trace, outages, reference, traces
from benchmarks.editing_traces import Options, Result, replay
from benchmarks.editor import Editor, rebuilt
from benchmarks.traces import Patch, Trace, parse, to_json
from crdtsync import AsyncClient, Client
from tests.harness import Cluster, Daemon

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
RECORDED = ("friendsforever", "clownschool")
SHORT = 600
LOG_BYTES_MIN = 64 * 1024
FAMILY = "👩\u200d👩\u200d👧"
PARAGRAPH = f"Ünï\u0308cödé {FAMILY} 漢字 مرحبا 𝒳🇩🇪: a long paragraph that nobody expected. "


def recorded(name: str) -> Trace:
    """A recorded session, or a skipped test."""
    directory = os.environ.get("CRDTSYNC_TRACES")
    if not directory:
        pytest.skip("CRDTSYNC_TRACES does not name a directory with recorded editing sessions")
    path = Path(directory) / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    return traces.load(path)


def check(result: Result) -> None:
    """Every node has the text that the trace says, and the same state as the others."""
    assert result.is_equal, "\n".join(result.verdict.differences)
    assert not result.verdict.alarms


# -- the made-up session ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_made_up_session_is_one_that_yjs_agrees_with(seed):
    trace = make_trace.make(seed)
    text = trace.end_content
    assert reference.end_content(trace) == text  # known without any CRDT, and found by one
    assert len({len(text), len(text.encode()), len(text.encode("utf-16-le")) // 2}) == 3
    assert trace.agents == 3
    assert trace.merges() > 50
    assert any(patch.deleted for transaction in trace.transactions for patch in transaction.patches)
    concurrent = [each for each in trace.transactions if sum(each.past.values()) < each.index]
    assert len(concurrent) > len(trace.transactions) / 3
    assert make_trace.make(seed).transactions == trace.transactions


async def test_made_up_session():
    check(await replay(make_trace.make(), Options(), quiet=True))


async def test_made_up_session_typed_into_editors():
    result = await replay(make_trace.make().shortened(300), Options(editors=True), quiet=True)
    assert result.is_equal, result.to_text()
    assert result.changes < result.transactions / 2


@pytest.mark.slow
async def test_made_up_session_with_daemons_killed():
    result = await replay(make_trace.make(1, SHORT), Options(kills=2, seed=1), quiet=True)
    check(result)
    assert [outage.how for outage in result.outages] == ["killed", "killed"]


@pytest.mark.slow
async def test_made_up_session_with_a_daemon_away():
    trace = make_trace.make(2)
    result = await replay(trace, Options(away=300, seed=2), quiet=True)
    check(result)
    (outage,) = result.outages
    assert outage.edits > 0


@pytest.mark.slow
async def test_made_up_session_with_a_daemon_away_for_longer_than_the_log_reaches():
    result = await replay(make_trace.make(), Options(away=500, log_bytes_max=LOG_BYTES_MIN), quiet=True)
    check(result)
    (outage,) = result.outages
    assert outage.by_snapshot
    assert result.verdict.states, "a daemon without the oldest edits shows a state in their stead"


def test_a_daemon_is_not_away_while_its_author_types():
    with pytest.raises(outages.PlanError, match="the longest rest of an author"):
        outages.longest_rest(make_trace.make(), 3, 1400)


async def test_an_author_goes_back_to_an_older_text():
    """An editor that undoes, or that was restored from a backup: it sends edits of a text without its own newest."""

    def transaction(agent: int, parents: list[int], *patches: tuple[int, int, str]) -> dict[str, Any]:
        return {"agent": agent, "parents": parents, "patches": [list(patch) for patch in patches]}

    plain = {
        "kind": "concurrent",
        "numAgents": 2,
        "endContent": "Oh, the quick 🦊 and the slow 🐢!\n",
        "txns": [
            transaction(0, [], (0, 0, "the 🦊\n")),
            transaction(0, [0], (4, 0, "quick ")),
            transaction(1, [0], (5, 0, " and the 🐢")),
            transaction(0, [0], (0, 1, "t"), (0, 0, "Oh, ")),  # without "quick "
            transaction(1, [1, 2, 3], (24, 0, "slow ")),
            transaction(0, [4], (30, 0, "!")),
            transaction(1, [5]),  # has no patches: only merges
        ],
    }
    trace = parse("back", plain)
    assert len(trace.chains) == 3
    assert reference.end_content(trace) == trace.end_content
    check(await replay(trace, Options(), quiet=True))


# -- the recorded sessions --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("options", [Options(), Options(kills=2), Options(away=200)], ids=["plain", "killed", "away"])
async def test_the_beginning_of_a_recorded_session(name, options):
    check(await replay(recorded(name).shortened(SHORT), options, quiet=True))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("options", [Options(), Options(kills=8), Options(away=5000)], ids=["plain", "killed", "away"])
async def test_a_recorded_session(name, options):
    check(await replay(recorded(name), options, quiet=True))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_session_with_a_daemon_away_for_longer_than_the_log_reaches(name):
    result = await replay(recorded(name), Options(away=5000, log_bytes_max=4 * LOG_BYTES_MIN), quiet=True)
    check(result)
    assert [outage.by_snapshot for outage in result.outages] == [True]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10, 20))
async def test_long_made_up_sessions_with_daemons_killed_and_away(seed):
    trace = make_trace.make(seed, 6000)
    check(await replay(trace, Options(kills=6, away=1500, seed=seed), quiet=True))


# -- the command ------------------------------------------------------------------------------------------------


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_command_says_equal_and_exits_with_0(tmp_path):
    path = tmp_path / "trace.json.gz"
    assert bench("make-trace", str(path), "--transactions", "200").returncode == 0
    done = bench("editing-traces", "--trace", str(path), "--transactions", "150", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["transactions"], found["equal"], found["differences"]) == (150, True, [])


@pytest.mark.slow
def test_the_command_shows_where_texts_differ_and_exits_with_1(tmp_path):
    plain = to_json(make_trace.make(transactions=100))
    expected = plain["endContent"]
    plain["endContent"] = f"{expected[:100]}🦊{expected[101:]}"
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(plain))
    done = bench("editing-traces", "--trace", str(path))
    assert done.returncode == 1
    for node in ("node-0", "node-1", "node-2"):
        for way in ("get", "read", "all updates"):
            assert f"DIFFERENT: {node}, by {way}: " in done.stdout
    assert "the first difference is at 100: " in done.stdout


def test_the_command_refuses_what_is_no_trace(tmp_path):
    path = tmp_path / "no.json"
    for content, complaint in (("{", "is not JSON"), ('{"kind": "sequential"}', "only concurrent ones")):
        path.write_text(content)
        done = bench("editing-traces", "--trace", str(path))
        assert done.returncode == 1
        assert complaint in done.stderr
        assert "Traceback" not in done.stderr


# -- an editor's own replica --------------------------------------------------------------------------------------


def test_an_editor_can_go_on_from_any_update(pair: Cluster):
    """The token of an update is a place in the text's history: nothing before it comes again, nothing after is lost."""
    ours, theirs = pair[0].client("a").text("notes"), pair[1].client("b").text("notes")
    editors = [Editor(), Editor()]
    token = ours.apply(editors[0].edit([Patch(0, 0, "x")]))
    pair[1].client("b").wait(token)
    editors[1].merge(update.update for update in theirs.updates())
    tokens = [token]
    for _ in range(30):
        tokens = [ours.apply(editors[0].edit([Patch(0, 0, "🦊")])), theirs.apply(editors[1].edit([Patch(1, 0, "漢")]))]
    for daemon in pair:
        with daemon.client("c") as client:
            for token in tokens:
                client.wait(token)
            items = list(client.text("notes").updates())
            assert len(items) == 61
            for at in (0, 1, 29, 59, 60):
                rest = list(client.text("notes").updates(after=items[at].token))
                assert [item.update for item in rest] == [item.update for item in items[at + 1 :]]
            assert rebuilt(item.update for item in items) == client.get("notes")


def test_an_editor_asks_for_what_is_new_since_its_own_edit(pair: Cluster):
    """The token of an edit names that edit, not what others wrote; a long history of one's own makes no difference."""
    with pair[1].client("b") as other:
        token = other.set("elsewhere", 1)  # a change that the edit's token does not name, before all edits
    ours, editor = pair[0].client("a"), Editor()
    ours.wait(token)
    text = ours.text("notes")
    for _ in range(1200):
        token = text.apply(editor.edit([Patch(0, 0, "a")]))
    assert list(text.updates(after=token)) == []
    assert len(list(text.updates())) == 1200


# -- positions ------------------------------------------------------------------------------------------------------

MEANWHILE = ["nothing", "their daemon was killed", "their daemon restarted", "the daemons lost each other"]


def between(pair: Cluster, what: str) -> None:
    """Something happens after the other's edit has arrived and before the author's own."""
    if what == "their daemon was killed":
        pair[0].kill()
        pair[0].start()
    elif what == "their daemon restarted":
        assert pair[0].stop() == 0
        pair[0].start()
    elif what == "the daemons lost each other":
        pair.cut(0, 1)
        pair.wait_parted(0, 1)


def arrive(daemon: Daemon, *tokens: str) -> None:
    """The daemon holds these; whoever works there has not read them."""
    with daemon.client("bystander") as bystander:
        for token in tokens:
            bystander.wait(token)


def text_at(daemon: Daemon, *tokens: str) -> str:
    """The text for somebody who comes new to it, when it holds these."""
    arrive(daemon, *tokens)
    with daemon.client("reader") as reader:
        return reader.text("notes").read()


@pytest.mark.parametrize("what", MEANWHILE)
@pytest.mark.parametrize("by", ["client", "session"])
def test_words_land_where_their_author_meant_them(pair: Cluster, what, by):
    client = pair[0].client("a")
    author = client if by == "client" else client.session(agent="a-2")
    notes, theirs = author.text("notes"), pair[1].client("b").text("notes")
    first = notes.set("the quick fox")
    assert notes.read() == "the quick fox"
    assert theirs.read(after=first) == "the quick fox"
    before = theirs.insert(0, PARAGRAPH)
    arrive(pair[0], before)
    between(pair, what)
    own = notes.insert(10, "brown ")
    pair.heal()
    for daemon in pair:
        assert text_at(daemon, before, own) == f"{PARAGRAPH}the quick brown fox"
    assert notes.read() == f"{PARAGRAPH}the quick brown fox"
    after = notes.insert(len(PARAGRAPH) + 4, "very ")  # as read by now
    for daemon in pair:
        assert text_at(daemon, after) == f"{PARAGRAPH}the very quick brown fox"


@pytest.mark.parametrize("what", MEANWHILE)
def test_a_deletion_takes_what_its_author_saw(pair: Cluster, what):
    notes, theirs = pair[0].client("a").text("notes"), pair[1].client("b").text("notes")
    first = notes.set(f"a {FAMILY} walks {FAMILY} home")
    assert theirs.read(after=first) == notes.read()
    tokens = [theirs.insert(0, PARAGRAPH), theirs.insert(len(PARAGRAPH) + 10, "漢字")]  # "wa漢字lks"
    tokens.append(theirs.delete(len(PARAGRAPH) + 2, 2))  # half of the first family
    arrive(pair[0], *tokens)
    between(pair, what)
    tokens += [notes.delete(8, 6), notes.delete(8, len(FAMILY))]  # "walks ", then the second family
    pair.heal()
    for daemon in pair:
        assert text_at(daemon, *tokens) == f"{PARAGRAPH}a {FAMILY[2:]} 漢字 home"


def test_a_rewrite_keeps_what_others_wrote_meanwhile(pair: Cluster):
    notes, theirs = pair[0].client("a").text("notes"), pair[1].client("b").text("notes")
    first = notes.set("漢字 and 🦊\n\nsecond line\n")
    theirs.read(after=first)
    tokens = [theirs.insert(0, PARAGRAPH), theirs.insert(len(PARAGRAPH) + len("漢字 and 🦊"), "🦊")]
    arrive(pair[0], *tokens)
    tokens.append(notes.set("漢字 and a 🦊\n\nsecond 漢字\n"))
    for daemon in pair:
        assert text_at(daemon, *tokens) == f"{PARAGRAPH}漢字 and a 🦊🦊\n\nsecond 漢字\n"


def test_each_session_has_its_own_reading(pair: Cluster):
    client = pair[0].client("a")
    early, late = client.session(agent="early").text("notes"), client.session(agent="late").text("notes")
    theirs = pair[1].client("b").text("notes")
    first = early.set("the quick fox")
    theirs.read(after=first)
    before = theirs.insert(0, PARAGRAPH)
    assert late.read(after=before) == f"{PARAGRAPH}the quick fox"
    tokens = [late.insert(len(PARAGRAPH) + 4, "very "), early.insert(10, "brown "), early.insert(16, "🦊")]
    for daemon in pair:
        assert text_at(daemon, *tokens) == f"{PARAGRAPH}the very quick brown 🦊fox"


def test_a_new_client_counts_from_its_own_reading(pair: Cluster):
    """What was read is the client's memory, not the daemon's: a program that was started again reads again."""
    with Client(pair[0].socket, agent="a") as client:
        first = client.text("notes").set("the quick fox")
    theirs = pair[1].client("b").text("notes")
    theirs.read(after=first)
    arrive(pair[0], theirs.insert(0, "🦊"))
    with Client(pair[0].socket, agent="a") as client:
        token = client.text("notes").insert(1, "!")  # reads first
    for daemon in pair:
        assert text_at(daemon, token) == "🦊!the quick fox"


async def test_words_of_tasks_land_where_they_meant_them(pair: Cluster):
    async with AsyncClient(pair[0].socket, agent="a") as client, AsyncClient(pair[1].socket, agent="b") as other:
        notes, session = client.text("notes"), client.session(agent="a-2").text("notes")
        first = await notes.set("the quick fox")
        await session.read()
        theirs = other.text("notes")
        await theirs.read(after=first)
        before = await theirs.insert(0, PARAGRAPH)
        await client.wait(before)
        pair[0].kill()
        pair[0].start()
        tokens = [await notes.insert(10, "brown "), await session.delete(0, 4)]
        for token in tokens:
            await other.wait(token)
        assert await other.get("notes") == f"{PARAGRAPH}quick brown fox"
        assert await notes.read() == await session.read() == f"{PARAGRAPH}quick brown fox"


def test_two_authors_at_one_time_at_random_places(pair: Cluster):
    """Each edits only lines of their own, by positions as last read: all lines come out as their author had them."""
    rng = Random(7)
    lines = [f"{number}: {PARAGRAPH}" for number in range(6)]
    texts = [daemon.client(f"author-{number}").text("notes") for number, daemon in enumerate(pair)]
    token = texts[0].set("".join(f"{line}\n" for line in lines))
    newest = {0: token}
    seen = [texts[0].read(), texts[1].read(after=token)]
    for _ in range(150):
        author = rng.randrange(2)
        if rng.random() < 0.3:
            seen[author] = texts[author].read()
        shown = seen[author].split("\n")
        row = rng.randrange(author, len(lines), 2)
        assert shown[row] == lines[row]  # nobody else edits it
        start = sum(len(line) + 1 for line in shown[:row])
        at = rng.randrange(len(lines[row]) + 1)
        if rng.random() < 0.4:
            length = rng.randint(0, min(5, len(lines[row]) - at))
            newest[author] = texts[author].delete(start + at, length)
            lines[row] = lines[row][:at] + lines[row][at + length :]
        else:
            word = rng.choice(("🦊", "fox ", "漢", "e\u0301", FAMILY, "שלום"))
            newest[author] = texts[author].insert(start + at, word)
            lines[row] = lines[row][:at] + word + lines[row][at:]
        shown[row] = lines[row]
        seen[author] = "\n".join(shown)
    for daemon in pair:
        assert text_at(daemon, *newest.values()) == "".join(f"{line}\n" for line in lines)
