"""Sessions of coding agents in the shared state: saved on one host, put back on another, by files as agents write them.

The agents themselves are run by ``test_sessions_of_agents``.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
from base64 import b64encode
from collections.abc import Callable, Iterator
from getpass import getuser
from pathlib import Path
from typing import Any

import pytest

from crdtsync import AsyncClient
from crdtsync.errors import InvalidRequest, Refused
from crdtsync.sessions import AsyncSessions, SaveResult, Sessions
from crdtsync.sessions.saved.pieces import lines_of
from tests.harness.cluster import Cluster, wait_until
from tests.harness.daemon import Daemon
from tests.harness.shell import Shell
from tests.integration.test_purge import files_with
from tests.unit.sessions.test_redaction import KINDS

pytestmark = pytest.mark.integration

CLAUDE_ID = "aaaaaaaa-0000-4000-8000-000000000001"
CODEX_ID = "019a0000-0000-7000-8000-000000000002"
TOKEN, MARK = "ghp_" + "a1B2c3D4e5F6" * 3, b"[redacted:github-token:1]"


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def claude_lines(cwd: str) -> list[bytes]:
    common = {"sessionId": CLAUDE_ID, "cwd": cwd, "version": "2.1.330"}
    return [
        line(type="queue-operation", operation="enqueue"),
        line(type="user", uuid="u1", parentUuid=None, message={"role": "user", "content": "fix the parser"}, **common),
        line(type="assistant", uuid="u2", parentUuid="u1", **common,
             message={"role": "assistant", "model": "claude-x", "content": [
                 {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"cat {cwd}/.env"}}]}),
        line(type="user", uuid="u3", parentUuid="u2", **common, message={"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": f"GITHUB_TOKEN={TOKEN}\n{cwd}/a.py"}]}),
        line(type="never-seen", what=[1, {"x": None}]),
        b"no JSON at all \xff\xfe\n",
    ]  # fmt: skip


def codex_lines(cwd: str) -> list[bytes]:
    meta = {"id": CODEX_ID, "timestamp": "", "cwd": cwd, "originator": "o", "cli_version": "0.169.0"}
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "write the docs"}]}
    return [
        line(timestamp="2026-11-20T10:00:00.000Z", type="session_meta", payload=meta),
        line(timestamp="2026-11-20T10:00:01.000Z", type="response_item", payload=said),
    ]


class Home:
    """A user's home on some machine, with sessions in it."""

    def __init__(self, place: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = place / name
        self.work = self.path / "api"
        self.work.mkdir(parents=True)
        self._monkeypatch = monkeypatch

    def enter(self) -> None:
        """From here on, this is the home."""
        for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
            self._monkeypatch.delenv(variable, raising=False)
        self._monkeypatch.setenv("HOME", str(self.path))

    @property
    def claude(self) -> Path:
        slug = str(self.work).replace("/", "-").replace("_", "-").replace(".", "-")
        return self.path / ".claude" / "projects" / slug / f"{CLAUDE_ID}.jsonl"

    @property
    def codex(self) -> Path:
        return (
            self.path / ".codex" / "sessions" / "2026" / "11" / "20" / f"rollout-2026-11-20T10-00-00-{CODEX_ID}.jsonl"
        )


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path, "ann", monkeypatch)
    home.enter()
    for path, lines in ((home.claude, claude_lines(str(home.work))), (home.codex, codex_lines(str(home.work)))):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(lines))
    side = home.claude.with_suffix("") / "subagents" / "agent-1.jsonl"
    side.parent.mkdir(parents=True)
    side.write_bytes(line(type="user", isSidechain=True, cwd=str(home.work)))
    return home


@pytest.fixture
def bob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path, "bob", monkeypatch)


def test_both_formats_come_back_to_the_byte(daemon: Daemon, ann: Home):
    sessions = Sessions(daemon.client("ann"))
    with ann.claude.open("ab") as file:
        file.write(b'{"type":"user","torn')
    before = {path: path.read_bytes() for path in (ann.claude, ann.codex)}
    for path, session in ((ann.claude, CLAUDE_ID), (ann.codex, CODEX_ID)):
        assert sessions.save(session, redact=False).saved.redacted is None
        path.unlink()
        loaded = sessions.load(session)
        assert loaded.files[str(path)] == "new"
        assert loaded.rewritten == {}
        assert path.read_bytes() == before[path]
        assert oct(path.stat().st_mode & 0o777) == "0o600"
    described = {saved.id: (saved.title, saved.turns, saved.cwd, saved.agent) for saved in sessions.ls()}
    assert described == {
        CLAUDE_ID: ("fix the parser", 1, str(ann.work), "claude-code"),
        CODEX_ID: ("write the docs", 1, str(ann.work), "codex"),
    }


def test_a_session_of_windows_goes_on_in_a_directory_here(daemon: Daemon, ann: Home):
    there = "C:\\Users\\Ann\\api"
    ann.codex.write_bytes(b"".join(codex_lines(there)) + line(type="x", at=f"{there}\\src\\a.py"))
    sessions = Sessions(daemon.client("ann"))
    sessions.save(CODEX_ID)
    ann.codex.unlink()
    with pytest.raises(InvalidRequest, match="no directory here: name one with --in"):
        sessions.load(CODEX_ID)
    assert sessions.load(CODEX_ID, cwd=ann.work).rewritten[f"{there}\\src\\a.py", f"{ann.work}/src/a.py"] == 1
    assert json.loads(ann.codex.read_bytes().splitlines()[-1])["at"] == f"{ann.work}/src/a.py"


def test_a_session_that_names_no_directory_is_saved_all_the_same(daemon: Daemon, ann: Home):
    ann.codex.write_bytes(b"".join(codex_lines("[somewhere]")))
    sessions = Sessions(daemon.client("ann"))
    sessions.save(CODEX_ID)
    assert sessions.get(CODEX_ID).cwd == ""
    assert sessions.load(CODEX_ID).files == {str(ann.codex): "same"}


@pytest.mark.skipif(
    "CRDTSYNC_TEST_SESSIONS" not in os.environ,
    reason="CRDTSYNC_TEST_SESSIONS names no folder of sessions: samples of other versions NOT tested",
)
@pytest.mark.timeout(600)
def test_samples_come_back_to_the_byte_on_another_host(pair: Cluster, ann: Home, bob: Home):
    """Each file below a folder, as one of Claude Code or of Codex: who reads it takes what it knows."""
    (here, there), tried = (Sessions(daemon.client("ann")) for daemon in pair), 0
    for number, sample in enumerate(sorted(Path(os.environ["CRDTSYNC_TEST_SESSIONS"]).rglob("*.jsonl"))):
        content, session = sample.read_bytes(), f"{number:08x}-0000-4000-8000-000000000000"
        other, path = "codex", ann.claude.with_name(f"{session}.jsonl")
        if re.search(rb'"type": ?"(session_meta|response_item)"|"record_type"', content):
            other, path = "claude-code", ann.codex.with_name(f"rollout-2026-11-20T10-00-00-{session}.jsonl")
        path.write_bytes(content)
        here.save(session, redact=False)
        pair[1].client("sync").wait(pair[0].client("sync").now())
        path.unlink()
        ((name, state),) = there.load(session).files.items()
        assert (state, Path(name).read_bytes()) == ("new", content), sample
        Path(name).unlink()
        if there.conversation(session).items:
            there.handover(session, to=other, cwd=bob.work, dry_run=True)
        tried += 1
    assert tried > 0


def test_a_second_save_writes_what_is_new(daemon: Daemon, ann: Home):
    client = daemon.client("ann")
    sessions = Sessions(client)
    assert sessions.save(CLAUDE_ID).new_lines == 7  # one of them the sub-agent's
    assert sessions.save(CLAUDE_ID).new_lines == 0
    with ann.claude.open("ab") as file:
        file.write(line(type="mode", mode="normal") + b"tor")
    assert (sessions.save(CLAUDE_ID).new_lines, sessions.save(CLAUDE_ID).new_bytes) == (1, 0)
    with ann.claude.open("ab") as file:
        file.write(b"n\n" + b"x" * 1_500_000 + b"\n")
    assert sessions.save(CLAUDE_ID).new_lines == 2
    assert len(client.log(f"sessions.lines/{CLAUDE_ID}/main")) == 1 + 1 + 1 + 1


def test_a_save_goes_on_where_the_last_one_stopped_and_notices_what_it_cannot_go_on_from(daemon: Daemon, ann: Home):
    sessions = Sessions(daemon.client("ann"))
    with ann.claude.open("ab") as file:
        file.write(line(type="mode", key=TOKEN))
    assert sessions.save(CLAUDE_ID).new_lines == 8
    (notes,) = [path for path in (ann.path / ".cache").rglob("*") if path.is_file()]
    assert TOKEN not in notes.read_text()
    with ann.claude.open("ab") as file:
        file.write(line(type="mode", key=TOKEN, other="ghp_" + "x1Y2z3A4b5C6" * 3))
    grown = sessions.save(CLAUDE_ID)
    assert (grown.new_lines, grown.saved.redacted, grown.saved.title) == (1, {"github-token": 2}, "fix the parser")
    told = b"".join(piece.content for piece in sessions.files(grown.saved)["main"])
    assert told.endswith(line(type="mode", key="[redacted:github-token:1]", other="[redacted:github-token:2]"))
    sessions.drop(CLAUDE_ID)
    assert sessions.save(CLAUDE_ID).new_lines == 9
    lines = ann.claude.read_bytes().splitlines(keepends=True)
    ann.claude.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    assert sessions.save(CLAUDE_ID).new_lines == 4
    assert sessions.save(CLAUDE_ID, redact=False).new_lines == 2  # those with secrets in them


@pytest.mark.parametrize("left", [0, 100, 700])
def test_a_file_that_was_cut_off_is_told_and_loses_nothing_that_was_saved(daemon: Daemon, ann: Home, left: int):
    sessions = Sessions(daemon.client("ann"))
    before = sessions.save(CLAUDE_ID, redact=False).saved
    whole = ann.claude.read_bytes()
    following = sessions.watch(CLAUDE_ID, redact=False, every_s=0.0)
    next(following)
    ann.claude.write_bytes(whole[:left])
    assert next(following).shorter == {"main": len(whole)}
    for _ in range(2):
        done = sessions.save(CLAUDE_ID, redact=False)
        assert (done.new_bytes, done.shorter, done.saved.cwd) == (0, {"main": len(whole)}, before.cwd)
    assert sessions.load(CLAUDE_ID).files[str(ann.claude)] == "grown"
    assert ann.claude.read_bytes() == whole
    assert sessions.save(CLAUDE_ID, redact=False).shorter == {}


def test_a_session_that_grows_is_followed(daemon: Daemon, ann: Home, tmp_path: Path):
    run = Shell(daemon.socket, tmp_path)
    run.environment["HOME"] = str(ann.path)
    with run.start("session", "watch", CLAUDE_ID, "--json") as watch:
        assert watch.event()["new_lines"] == 7
        with ann.claude.open("ab") as file:
            file.write(line(type="mode", key=TOKEN) + b'{"type":"to')
        assert watch.event()["new_lines"] == 1
        with ann.claude.open("ab") as file:
            file.write(b'rn"}\n')
        side = ann.claude.with_suffix("") / "tool-results" / "1.txt"
        side.parent.mkdir()
        side.write_text("much\n")
        found = watch.event()
        while "tool-results/1.txt" not in found["files"]:
            found = watch.event()
        assert watch.interrupt()[0] == 130
    sessions = Sessions(daemon.client("ann"))
    assert sessions.save(CLAUDE_ID).new_bytes == 0
    told = b"".join(piece.content for piece in sessions.files(sessions.get(CLAUDE_ID))["main"])
    assert told == ann.claude.read_bytes().replace(TOKEN.encode(), MARK)


def followed(daemon: Daemon, ann: Home) -> tuple[Sessions, Iterator[SaveResult], Callable[[int], None]]:
    """Ann's session of Claude Code while it is followed, and what writes lines to it."""
    sessions = Sessions(daemon.client("ann"))
    following = sessions.watch(CLAUDE_ID, every_s=0.0)
    next(following)

    def write(count: int) -> None:
        with ann.claude.open("ab") as file:
            for number in range(count):
                said = {"type": "text", "text": f"{number} {'found in the parser ' * 40}"}
                file.write(line(type="assistant", uuid=f"v{number}", message={"role": "assistant", "content": [said]}))

    return sessions, following, write


def test_lines_of_a_followed_session_are_saved_at_once_and_its_record_now_and_then(daemon: Daemon, ann: Home):
    sessions, following, write = followed(daemon, ann)
    records = set()
    for _ in range(40):
        write(3)
        next(following)
        saved = sessions.get(CLAUDE_ID)
        records.add(saved.bytes)
        assert b"".join(one.content for one in sessions.files(saved)["main"]).endswith(ann.claude.read_bytes()[-900:])
    assert len(records) < 15
    log = daemon.client("ann").log(f"sessions.lines/{CLAUDE_ID}/main")
    assert all(len(one[1]) < 300 for one in log[1:])  # packed with what was before them
    write(3)
    whole = Sessions(daemon.client("hook")).save(CLAUDE_ID)
    assert whole.new_lines == 3
    assert len(list(lines_of(sessions.files(whole.saved)["main"]))) == 6 + 41 * 3
    assert sessions.get(CLAUDE_ID).bytes == whole.saved.bytes
    write(3)
    assert next(following).new_lines == 3  # the hook's lines are there


def test_a_followed_session_that_is_dropped_is_saved_whole_again(daemon: Daemon, ann: Home):
    sessions, following, write = followed(daemon, ann)
    for _ in range(12):
        write(3)
        next(following)
    sessions.drop(CLAUDE_ID)
    write(3)
    assert next(following).new_lines == 6 + 13 * 3 + 1
    assert len(list(lines_of(sessions.files(sessions.get(CLAUDE_ID))["main"]))) == 6 + 13 * 3


def test_large_results_and_pictures_are_blobs_beside_the_lines(pair: Cluster, ann: Home, bob: Home):
    on_a, on_b = Sessions(pair[0].client("ann")), Sessions(pair[1].client("bob"))
    with ann.claude.open("ab") as file:
        result = {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": f"GITHUB_TOKEN={TOKEN} " + "many words " * 300_000,
        }
        picture = {
            "type": "base64",
            "media_type": "image/png",
            "data": b64encode(random.Random(7).randbytes(2**20)).decode(),
        }
        for number, block in enumerate((result, {"type": "image", "source": picture})):
            said = line(type="user", uuid=f"p{number}", parentUuid="u3", message={"content": [block]})
            file.write(said)
    original = ann.claude.read_bytes()
    on_a.save(CLAUDE_ID)
    client = pair[1].client("bob")
    client.wait(pair[0].client("ann").now())
    lines = client.log(f"sessions.lines/{CLAUDE_ID}/main")
    assert sum(len(one[1]) for one in lines if not isinstance(one[1], int)) < 10_000
    blobs = [client.get_blob(key) for key in client.keys(f"sessions.lines/{CLAUDE_ID}/.large/")]
    assert sorted(blob.size // 2**20 for blob in blobs if blob) == [0, 1]
    bob.enter()
    on_b.load(CLAUDE_ID)
    moved = original.replace(str(ann.path).encode(), str(bob.path).encode())
    assert bob.claude.read_bytes() == moved.replace(TOKEN.encode(), MARK)
    assert b"".join(lines_of(on_b.files(on_b.get(CLAUDE_ID))["main"])) == original.replace(TOKEN.encode(), MARK)
    ann.enter()
    assert on_a.save(CLAUDE_ID).new_bytes == 0
    assert on_b.drop(CLAUDE_ID)
    assert client.keys("sessions.lines") == []


def test_no_secret_leaves_the_machine(daemon: Daemon, ann: Home):
    sessions = Sessions(daemon.client("ann"))
    assert sessions.save(CLAUDE_ID).saved.redacted == {"github-token": 1}
    told = sessions.files(sessions.get(CLAUDE_ID))["main"]
    assert b"GITHUB_TOKEN=[redacted:github-token:1]" in b"".join(piece.content for piece in told)
    files = [path for path in daemon.base.rglob("*") if path.is_file()]
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]
    original = ann.claude.read_bytes()
    assert set(sessions.load(CLAUDE_ID).files.values()) == {"same"}  # what is here keeps its secrets
    assert ann.claude.read_bytes() == original


def test_of_500_planted_secrets_none_is_stored_logged_sent_or_noted(pair: Cluster, ann: Home):
    rng = random.Random(7)
    planted = [make(rng) for make in KINDS.values() for _ in range(12)]
    assert len(planted) >= 500
    with ann.claude.open("ab") as file:
        for number, secret in enumerate(planted):
            content = f"$ env\n{secret}\n"
            file.write(line(type="user", uuid=f"s{number}", parentUuid="u3", message={"content": content}))
    sessions = Sessions(pair[0].client("ann"))
    assert sum((sessions.save(CLAUDE_ID).saved.redacted or {}).values()) >= len(planted)
    pair[1].client("bob").wait(pair[0].client("ann").now())
    saved = sessions.files(sessions.get(CLAUDE_ID))
    there = [b"".join(piece.content for piece in pieces) for pieces in saved.values()]
    for folder in (pair[0].base, pair[1].base, ann.path / ".cache"):
        there += [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    there += ["\n".join(daemon._lines).encode() for daemon in pair]
    cores = [max(re.findall(r"[\w+/-]+", secret), key=len).encode() for secret in planted]
    assert [core for core in cores if any(core in data for data in there)] == []


def test_what_was_saved_with_its_secrets_is_refused_until_it_is_out_of_every_file(pair: Cluster, ann: Home):
    here, there = (Sessions(daemon.client("ann")) for daemon in pair)
    ann.codex.write_bytes(codex_lines(str(ann.work))[0] + line(key=TOKEN))  # so short that nothing is packed
    assert here.save(CODEX_ID, redact=False).saved.redacted is None
    here.save(CLAUDE_ID, redact=False)
    pair[1].client("ann").wait(pair[0].client("ann").now())
    for sessions in (here, there):
        with pytest.raises(Refused, match=f"crdtsync session drop {CODEX_ID} takes it out everywhere"):
            sessions.save(CODEX_ID)
        with pytest.raises(Refused, match="with its secrets"):
            next(iter(sessions.watch(CODEX_ID)))
    assert all(files_with(TOKEN, daemon.data) for daemon in pair)
    assert there.drop(CODEX_ID)
    assert [one.id for one in there.prune(older_s=0)] == [CLAUDE_ID]
    assert pair[1].client("ann").purges(f"sessions.lines/{CLAUDE_ID}/**")
    assert there.save(CODEX_ID).saved.redacted == {"github-token": 1}
    assert there.save(CODEX_ID).new_bytes == 0
    assert b"".join(lines_of(there.files(there.get(CODEX_ID))["main"])) == ann.codex.read_bytes().replace(
        TOKEN.encode(), MARK
    )
    for daemon in pair:
        wait_until(lambda d=daemon: not files_with(TOKEN, d.data), what=f"{daemon.name} is clean")  # type: ignore[misc]
    wait_until(lambda: [one.id for one in here.ls()] == [CODEX_ID], what="the other host hears of it")
    assert here.save(CODEX_ID).new_bytes == 0


def test_a_secret_in_the_name_of_a_directory_is_stored_nowhere(
    pair: Cluster, ann: Home, bob: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of the directory, and of the home in which the agent keeps the session under the name of that."""
    home = Home(tmp_path, f"ann-{TOKEN}", monkeypatch)
    home.enter()
    home.claude.parent.mkdir(parents=True)
    home.claude.write_bytes(
        b"".join(claude_lines(str(home.work))) + line(type="mode", at=f"{home.claude.parent}/memory/a.md")
    )
    side = home.claude.with_suffix("") / "tool-results" / f"{TOKEN}.txt"
    side.parent.mkdir(parents=True)
    side.write_text("x\n")
    here, there = (Sessions(daemon.client("ann")) for daemon in pair)
    done = here.save(CLAUDE_ID)
    assert done.left_out == {f"tool-results/{TOKEN}.txt": "has a secret in its name"}
    assert done.saved.redacted == {"github-token": 1}
    assert done.saved.cwd == f"{tmp_path}/ann-{MARK.decode()}/api"
    pair[1].client("bob").wait(pair[0].client("ann").now())
    kept = [path.read_bytes() for daemon in pair for path in daemon.base.rglob("*") if path.is_file()]
    kept += [path.read_bytes() for path in (home.path / ".cache").rglob("*") if path.is_file()]
    kept += ["\n".join(daemon._lines).encode() for daemon in pair]
    kept += [piece.content for pieces in there.files(done.saved).values() for piece in pieces]
    kept += [repr(there.get(CLAUDE_ID)).encode()]
    assert not [data for data in kept if TOKEN[4:].encode() in data]
    bob.enter()
    loaded = there.load(CLAUDE_ID, cwd=bob.work)
    assert json.loads(bob.claude.read_bytes().splitlines()[1])["cwd"] == str(bob.work)
    assert json.loads(bob.claude.read_bytes().splitlines()[-1])["at"] == f"{bob.claude.parent}/memory/a.md"
    told = there.handover(CLAUDE_ID, to="codex", cwd=bob.work).rewritten
    assert f"{bob.claude.parent}/memory/a.md" in {new for _, new in told}
    home.enter()
    assert here.load(CLAUDE_ID, cwd=home.work).files == {str(home.claude): "same"}
    assert loaded.redacted == {"github-token": 1}


def test_another_user_in_another_directory_goes_on_and_the_first_goes_on_from_there(
    pair: Cluster, ann: Home, bob: Home
):
    on_a, on_b = Sessions(pair[0].client("ann")), Sessions(pair[1].client("bob"))
    original = ann.claude.read_bytes()
    on_a.save(CLAUDE_ID)
    pair[1].client("bob").wait(pair[0].client("ann").now())

    bob.enter()
    loaded = on_b.load(CLAUDE_ID)
    assert loaded.cwd == str(bob.work)
    assert loaded.command == f"cd {bob.work} && claude --resume {CLAUDE_ID}"
    assert loaded.redacted == {"github-token": 1}
    assert loaded.rewritten[str(ann.work / "a.py"), str(bob.work / "a.py")] == 1
    moved = original.replace(str(ann.path).encode(), str(bob.path).encode())
    assert bob.claude.read_bytes() == moved.replace(TOKEN.encode(), MARK)
    with bob.claude.open("ab") as file:
        file.write(line(type="user", uuid="u4", parentUuid="u3", cwd=str(bob.work), message={"content": "go on"}))
    assert on_b.save(CLAUDE_ID).saved.turns == 2
    pair[0].client("ann").wait(pair[1].client("bob").now())

    ann.enter()
    loaded = on_a.load(CLAUDE_ID)
    assert (loaded.files[str(ann.claude)], loaded.other_ends) == ("grown", 0)
    assert ann.claude.read_bytes().startswith(original)
    assert json.loads(ann.claude.read_bytes().splitlines()[-1])["cwd"] == str(ann.work)

    bob.enter()
    for what in ("one way", "another way"):
        lines = [json.loads(one) for one in bob.claude.read_bytes().splitlines()[:-1] if one.startswith(b"{")]
        new = line(type="user", uuid=what, parentUuid="u3", cwd=str(bob.work), message={"content": what})
        bob.claude.write_bytes(b"".join(line(**one) for one in lines[:3]) + new + new)
        on_b.save(CLAUDE_ID)
    ways = on_b.branches(CLAUDE_ID)
    assert [getattr(one.items[-1], "text", "") for one in ways] == ["another way", "one way", "go on"]
    assert on_b.conversation(CLAUDE_ID, 2).items == ways[1].items
    assert on_b.branch(CLAUDE_ID, way=3, dry_run=True).turns == 2
    with pytest.raises(InvalidRequest, match="in 3 ways"):
        on_b.branch(CLAUDE_ID, way=4)


def test_nothing_else_is_overwritten(daemon: Daemon, ann: Home):
    sessions = Sessions(daemon.client("ann"))
    sessions.save(CLAUDE_ID)
    lines = claude_lines(str(ann.work))
    ann.claude.write_bytes(lines[0] + b"another\n")
    with pytest.raises(Refused, match="is not what was saved"):
        sessions.load(CLAUDE_ID)
    assert ann.claude.read_bytes() == lines[0] + b"another\n"
    ann.claude.write_bytes(b"".join(lines[:3]))
    with ann.claude.open("rb"):  # another process has it open
        reader = os.fork()
        if reader == 0:
            signal.pause()
        try:
            with pytest.raises(Refused, match=f"in use by process {reader}"):
                sessions.load(CLAUDE_ID)
        finally:
            os.kill(reader, 9)
            os.waitpid(reader, 0)
    ann.claude.write_bytes(b"".join(lines[:3]))
    assert sessions.load(CLAUDE_ID, dry_run=True).files[str(ann.claude)] == "grown"
    assert ann.claude.read_bytes() == b"".join(lines[:3])
    ann.claude.write_bytes(b"".join(lines) + b"more\n")
    assert sessions.load(CLAUDE_ID).files[str(ann.claude)] == "ahead"


def test_a_session_that_tells_of_both_homes_comes_back(daemon: Daemon, ann: Home, bob: Home):
    sessions = Sessions(daemon.client("ann"))
    with ann.claude.open("ab") as file:
        file.write(line(type="mode", note=f"handed over by {bob.path}/x to {ann.path}/x"))
    before = ann.claude.read_bytes()
    sessions.save(CLAUDE_ID)
    bob.enter()
    sessions.load(CLAUDE_ID)
    with bob.claude.open("ab") as file:
        file.write(line(type="mode", mode="normal"))
    sessions.save(CLAUDE_ID)
    ann.enter()
    assert sessions.load(CLAUDE_ID).files[str(ann.claude)] == "grown"
    assert ann.claude.read_bytes() == before + line(type="mode", mode="normal")


def test_a_branch_goes_on_from_a_turn_without_the_excluded_ones(daemon: Daemon, ann: Home):
    with ann.claude.open("ab") as file:
        for number, text in ((4, "use tabs"), (5, "now the tests")):
            message = {"role": "user", "content": text}
            file.write(line(type="user", uuid=f"u{number}", parentUuid=f"u{number - 1}", message=message))
    sessions = Sessions(daemon.client("ann"))
    sessions.save(CLAUDE_ID)
    early = sessions.branch(CLAUDE_ID, at=1)
    assert (early.turns, early.state, early.to) == (1, "new", "claude-code")
    assert early.command == f"cd {ann.work} && claude --resume {early.id}"
    told = Path(early.path).read_text()
    assert "fix the parser" in told
    assert "use tabs" not in told
    assert sessions.exclude(CLAUDE_ID, "2") == [2]
    with pytest.raises(Refused, match=f"turns 2 of session {CLAUDE_ID} are excluded"):
        sessions.load(CLAUDE_ID)
    assert sessions.load(CLAUDE_ID, whole=True).files[str(ann.claude)] == "same"
    for done in (sessions.branch(CLAUDE_ID), sessions.handover(CLAUDE_ID, to="codex")):
        told = Path(done.path).read_text()
        assert "now the tests" in told
        assert "use tabs" not in told
        assert "1 × turn 2: it is excluded" in done.lost
    mapped = sessions.handover(CLAUDE_ID, to="codex", maps=[f"{ann.work}/a.py=/mnt/a.py"])
    assert (mapped.state, mapped.id == done.id) == ("new", False)
    assert "use tabs" not in sessions.brief(CLAUDE_ID)
    given: list[str] = []

    def better(text: str) -> str:
        given.append(text)
        return "in a word"

    assert sessions.brief(CLAUDE_ID, better=better) == "in a word"
    assert "User: now the tests" in given[0]
    assert "use tabs" not in given[0]
    assert sessions.exclude(CLAUDE_ID, "1-3") == [1, 2, 3]
    assert sessions.include(CLAUDE_ID, "2-3") == [1]
    for wrong in ("0", "4", "3-2"):
        for change in (sessions.exclude, sessions.include):
            with pytest.raises(InvalidRequest, match="the session has the turns 1 to 3"):
                change(CLAUDE_ID, wrong)
    assert Path(sessions.save(Path(early.path).stem).saved.place).name == Path(early.path).name
    sessions.drop(CLAUDE_ID)
    assert daemon.client().keys("sessions.excluded/") == []


def test_it_goes_back_keeps_only_files_and_takes_notes_of_another(daemon: Daemon, ann: Home, tmp_path: Path):
    with ann.claude.open("ab") as file:
        message = {"role": "user", "content": "we use tabs"}
        file.write(line(type="user", uuid="u4", parentUuid="u3", message=message))
    sessions = Sessions(daemon.client("ann"))
    sessions.save(CLAUDE_ID)
    early = sessions.branch(CLAUDE_ID, at=1)
    sessions.save(early.id)
    diff = Shell(daemon.socket, tmp_path).ok("session", "diff", early.id, CLAUDE_ID)
    assert "+User: we use tabs" in diff.splitlines()
    files = Path(sessions.branch(CLAUDE_ID, only_files=True).path).read_text()
    assert "/.env" in files
    assert "a.py" in files
    assert "fix the parser" not in files
    merged = Path(sessions.branch(early.id, merge=CLAUDE_ID).path).read_text()
    assert "we use tabs" in merged.splitlines()[-1]
    assert sessions.rewind(CLAUDE_ID, 1) == [2]
    assert "we use tabs" not in Path(sessions.branch(CLAUDE_ID).path).read_text()
    assert sessions.rewind(CLAUDE_ID, 2) == [2]
    assert sessions.include(CLAUDE_ID, "2") == []


class Fleet:
    """Ann and bob, each with the command line of a host."""

    def __init__(self, pair: Cluster, ann: Home, bob: Home) -> None:
        self.ann, self.bob = (Shell(host.socket, home.path) for host, home in zip(pair, (ann, bob), strict=True))
        for shell in (self.ann, self.bob):
            shell.environment["HOME"] = str(shell.directory)


@pytest.fixture
def fleet(pair: Cluster, ann: Home, bob: Home) -> Fleet:
    return Fleet(pair, ann, bob)


def test_a_fleet_sees_follows_and_searches_each_others_sessions(fleet: Fleet, pair: Cluster, ann: Home):
    with fleet.ann.start("session", "watch", CLAUDE_ID, "--json") as watch:
        watch.event()
        wait_until(lambda: [one["now"] for one in fleet.bob.json("session", "ls", "--where", "--json")] == [True])
        head, row = fleet.bob.ok("session", "ls", "--where").splitlines()
        assert head.split() == ["SESSION", "AGENT", "SAVED", "TURNS", "BY", "TITLE", "IN"]
        assert row.split()[:5] == [CLAUDE_ID, "claude-code", "now", "1", f"{getuser()}@{pair[0].name}"]
        assert row.endswith(f"  {ann.work}")
        with fleet.bob.start("session", "follow", CLAUDE_ID[:8], "--json") as follow:
            assert [follow.event()["type"] for _ in range(3)] == ["Text", "Call", "Result"]
            with ann.claude.open("ab") as file:
                message = {"role": "user", "content": "Now the tests"}
                file.write(line(type="user", uuid="u4", parentUuid="u3", message=message))
            assert follow.event() == {"turn": 2, "type": "Text", "text": "Now the tests"}
    found, *_ = fleet.bob.json("search", "TESTS", "now", "--prefix", "sessions.lines/", "--json")
    assert (found["key"], found["snippet"]) == (f"sessions.lines/{CLAUDE_ID}/main", "Now the tests")


def test_one_command_moves_a_session_to_another_host_where_its_user_lets_it(fleet: Fleet, pair: Cluster, bob: Home):
    user = getuser()
    move = ("session", "handover", "--latest", "--to", "codex", "--on", pair[1].name, "--in", str(bob.work),
            "--from", "claude-code")  # fmt: skip
    refused = fleet.ann(*move)
    assert (refused.status, refused.out) == (4, "")
    assert f"{user}@{pair[1].name} receives no sessions (nobody does)" in refused.err
    with fleet.bob.start("session", "receive", "--json") as receive:
        wait_until(lambda: fleet.ann(*move).status == 0, what="bob receives, and ann sees that")
        moved = receive.event()
        assert moved["command"] == f"cd {bob.work} && codex resume {moved['id']}"
        assert Path(moved["path"]).is_relative_to(bob.path)
        again = fleet.ann(*move)
        assert "is there already, 1 turn" in again.out
        assert moved["command"] in again.out
        failed = fleet.ann(*move, "--budget", "1")
        assert f"{user}@{pair[1].name}: the newest turn alone" in failed.err
        secret = bob.path / f"api-{TOKEN}"
        refused = fleet.ann(*move[:-3], str(secret), *move[-2:])
        assert (refused.status, "a path holds a secret" in refused.err) == (4, True)
        away = fleet.ann(*move[:-3], str(bob.work / "away"), *move[-2:], "--dry-run")
        assert f"{bob.work}/away is not there" in away.err
    secret.mkdir()
    fleet.bob.environment["HOME"] = str(secret)
    with fleet.bob.start("session", "receive", "--json") as receive:
        wait_until(lambda: fleet.ann(*move[:7], *move[-2:]).status == 0, what="bob receives in another home")
        assert TOKEN in receive.event()["path"]
    stored = repr(list(pair[0].client("ann").tasks("session-moves/")))
    assert (MARK.decode() in stored, TOKEN in stored) == (True, False)


def test_sessions_are_private_until_shared_and_old_ones_go(daemon: Daemon, ann: Home):
    state = daemon.client("ann")
    state.create_space("mine", private=True)
    state.create_space("api")
    agent = daemon.client("critic", agent_key=state.agent_create("critic")["key"])
    mine = Sessions(state.session(space="mine"))
    mine.save(CLAUDE_ID)
    mine.exclude(CLAUDE_ID, "1")
    for space in ("mine", "api"):
        with pytest.raises(Refused):
            Sessions(agent.session(space=space)).ls()
    for prefix in ("sessions", "sessions.lines", "sessions.excluded"):
        state.session(space="api").access_grant("agent:critic", "read", f"{prefix}/**")
    assert mine.share(CLAUDE_ID, "api").new_lines == 7
    assert mine.share(CLAUDE_ID, "api").new_lines == 0
    shared = Sessions(agent.session(space="api"))
    assert [saved.id for saved in shared.ls()] == [CLAUDE_ID]
    assert shared.excluded(CLAUDE_ID) == [1]
    assert len(shared.conversation(CLAUDE_ID).turns()) == 2
    sessions = Sessions(state.session(space="api"))
    sessions.save(CODEX_ID)
    (codex, claude) = sessions.ls()
    both = codex.bytes + claude.bytes
    assert sessions.prune(older_s=3600) == []
    assert [one.id for one in sessions.prune(bytes_max=both - 1)] == [CLAUDE_ID]
    assert sessions.prune(bytes_max=both - 1, always=True) == []
    sessions.save(CLAUDE_ID)
    assert [saved.id for saved in sessions.ls()] == [CLAUDE_ID]  # the older one went by itself
    state.session(space="api").delete("sessions.limits")
    sessions.save(CODEX_ID)
    assert len(sessions.ls()) == 2
    large = CODEX_ID.replace("2", "3")
    ann.codex.with_name(f"rollout-2026-11-20T10-00-00-{large}.jsonl").write_bytes(b"x" * 100_000 + b"\n")
    sessions.save(large)
    with ann.codex.open("ab") as file:
        file.write(b"y\n")
    sessions.save(CODEX_ID)
    assert [one.id for one in sessions.prune(bytes_max=50_000)] == [large, CLAUDE_ID]  # the oldest, not the largest


def test_who_may_read_a_project_s_sessions_goes_on_with_them_and_changes_none(
    daemon: Daemon, ann: Home, bob: Home, tmp_path: Path
):
    run = Shell(daemon.socket, tmp_path)
    run.environment["HOME"] = str(ann.path)
    key = run.ok("agent", "create", "bob")
    run.ok("space", "create", "api")
    run.ok("--space", "api", "session", "save", CLAUDE_ID)
    by_bob = {"CRDTSYNC_SPACE": "api", "CRDTSYNC_AGENT": "bob", "CRDTSYNC_AGENT_KEY": key, "HOME": str(bob.path)}
    assert "may use none" in run("session", "ls", **by_bob).err
    for part in ("sessions/**", "sessions.lines/**", "sessions.excluded/**"):
        run.ok("--space", "api", "access", "grant", "agent:bob", "read", part)
    assert "fix the parser" in run.ok("session", "ls", **by_bob)
    assert "fix the parser" in run.ok("session", "show", CLAUDE_ID, **by_bob)
    assert run.ok("session", "load", CLAUDE_ID, "--in", str(bob.work), **by_bob).endswith(f"--resume {CLAUDE_ID}")
    with ann.claude.open("ab") as file:
        file.write(line(type="mode", mode="normal"))
    for words in (("exclude", CLAUDE_ID, "1"), ("drop", CLAUDE_ID), ("save", CLAUDE_ID)):
        done = run("session", *words, **by_bob | {"HOME": str(ann.path)})
        assert (done.status, "may not" in done.err) == (4, True), done


def test_a_fork_of_codex_takes_its_parent_along(daemon: Daemon, ann: Home):
    sessions = Sessions(daemon.client("ann"))
    child = CODEX_ID[:-1] + "3"
    meta = {"id": child, "cwd": str(ann.work), "history_base": {"thread_id": CODEX_ID, "end_ordinal_exclusive": 2}}
    path = ann.codex.with_name(ann.codex.name.replace(CODEX_ID, child))
    path.write_bytes(line(type="session_meta", payload=meta))
    assert [one.saved.id for one in sessions.save(child).needed] == [CODEX_ID]
    path.unlink()
    ann.codex.unlink()
    assert [one.saved.id for one in sessions.load(child).needed] == [CODEX_ID]
    assert path.exists()
    assert ann.codex.exists()


def test_what_others_write_there_harms_nobody(daemon: Daemon, ann: Home):
    client = daemon.client("mallory")
    sessions = Sessions(client)
    sessions.save(CLAUDE_ID)
    header = client.get(f"sessions/{CLAUDE_ID}")
    client.set(f"sessions/{CLAUDE_ID}", {**header, "files": {**header["files"], "../../evil": [b"", 0, 0]}})
    with pytest.raises(InvalidRequest, match="outside"):
        sessions.load(CLAUDE_ID)
    client.set(f"sessions/{CLAUDE_ID}", {**header, "id": "../../evil"})
    with pytest.raises(InvalidRequest, match="holds no saved session"):
        sessions.load(CLAUDE_ID)
    client.set("sessions/odd", 3)
    client.append(f"sessions.lines/{CLAUDE_ID}/main", [b"nowhere", "x\n"])
    client.set(f"sessions/{CLAUDE_ID}", header)
    with pytest.raises(Exception, match="not on this host"):
        sessions.load(CLAUDE_ID)
    assert sessions.drop(CLAUDE_ID)
    assert client.keys("sessions") == ["sessions/odd"]


async def test_it_works_in_asyncio(daemon: Daemon, ann: Home):
    async with AsyncClient(daemon.socket, agent="ann") as client:
        sessions = AsyncSessions(client)
        assert (await sessions.save(agent="codex")).saved.id == CODEX_ID
        ann.codex.unlink()
        await sessions.load(CODEX_ID[:8])
        assert ann.codex.exists()


def test_the_command_line(daemon: Daemon, ann: Home, bob: Home, tmp_path: Path):
    run = Shell(daemon.socket, tmp_path)
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        run.environment.pop(variable, None)
    run.environment["HOME"] = str(ann.path)
    (ann.work / ".git").mkdir()
    (ann.work / ".git" / "HEAD").write_text("c0ffee" * 6 + "abcd\n")
    assert "7 new lines" in run("session", "save", CLAUDE_ID).out
    assert "1 github-token" in run("session", "save", CLAUDE_ID).out
    assert run("session", "save").status == 2
    assert run("session", "save", "../x").status == 4
    assert "0 new lines" in run("session", "save", CLAUDE_ID[:5]).out
    assert "not written" not in run("session", "load", CLAUDE_ID, "--dry-run").out
    assert run("session", "save", "--latest", "--from", "codex").status == 0
    assert len(run("session", "ls", "--json").out.splitlines()) == 2
    assert "User: write the docs" in run("session", "show", CODEX_ID[:8]).out
    old = CODEX_ID.replace("2", "3")
    ann.codex.with_name(f"rollout-2025-05-20T10-00-00-{old}.jsonl").write_bytes(line(id=old) + line(type="message"))
    assert run("session", "save", old).status == 0
    assert f"crdtsync session branch {old} makes one that it resumes" in run("session", "load", old).err
    assert "as old as this" not in run("session", "load", CODEX_ID).err
    assert run("session", "show", CODEX_ID, "--file", "main").out.encode() == ann.codex.read_bytes()
    run.environment["HOME"] = str(bob.path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    _, out, err = run("session", "load", CLAUDE_ID[:8], "--in", str(elsewhere))
    assert f"the session was at commit c0ffeec0ffee, and {elsewhere} is at no commit" in err
    assert f"{ann.work} → {elsewhere}" in out
    assert out.endswith(f"cd {elsewhere} && claude --resume {CLAUDE_ID}\n")
    assert run("session", "load", CLAUDE_ID, "--map", "x").status == 4
    handed = run("session", "handover", CLAUDE_ID, "--to", "codex", "--in", str(elsewhere), "--budget", "5000").out
    assert handed.splitlines()[0].endswith("new, 1 turn")
    assert "codex resume" in handed.splitlines()[-1]
    aside = ("session", "show", CLAUDE_ID, "--file", "subagents/agent-1.jsonl")
    assert (
        f"not carried: 1 × file in subagents: the model was not shown it; crdtsync {' '.join(aside)} prints" in handed
    )
    assert json.loads(run(*aside).out)["isSidechain"] is True
    assert run("session", "show", CLAUDE_ID, "--file", "x").status == 1
    assert run("session", "handover", CLAUDE_ID, "--to", "claude-code").status == 4
    assert run("session", "handover", CLAUDE_ID, "--to", "codex", "--budget", "10").status == 4
    assert "not there" in run("session", "handover", CLAUDE_ID, "--to", "codex", "--map", f"{ann.path}=/nowhere").err
    assert "→ Bash" in run("session", "show", CLAUDE_ID, "--turns", "1").out
    assert run("session", "show", CLAUDE_ID, "--turns", "x").status == 4
    assert run("session", "exclude", CLAUDE_ID, "1").out == "excluded: 1\n"
    assert "branch" in run("session", "load", CLAUDE_ID).err
    assert "turn 1 (excluded)" in run("session", "show", CLAUDE_ID).out
    assert run("session", "include", CLAUDE_ID, "1").out == "excluded: nothing\n"
    branched = run("session", "branch", CLAUDE_ID, "--at", "1", "--in", str(elsewhere)).out
    assert "claude --resume" in branched.splitlines()[-1]
    assert "- turn 1: fix the parser" in run("session", "brief", CLAUDE_ID, "--budget", "200").out
    run("session", "exclude", CLAUDE_ID, "1")
    for command in ("brief", "branch"):
        assert (
            "has nothing in it but excluded turns (1): crdtsync session include"
            in run("session", command, CLAUDE_ID).err
        )
    assert run("session", "drop", CLAUDE_ID).status == 0
    assert run("session", "load", CLAUDE_ID).status == 4
