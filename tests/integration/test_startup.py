"""How a daemon starts, does not start, reloads and ends: every refusal is one sentence that says what to do."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import pytest

from tests.harness import Daemon, RawAgent, RawError, wait_until, wait_until_equal
from tests.harness.warm import run_to_end
from tests.integration.witness import assert_clean, assert_sentence, undisturbed

pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-c", "from crdtsyncd.main import main; main()"]
CONFIG, FAILED, UNFIT = 2, 1, 65
# Root may read everything, unless it gives that up.
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def run(*options: object, bare: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``crdtsyncd`` until it ends; if ``bare``, without root's right to read everything."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CRDTSYNC_", "XDG_"))}
    given, arguments = {**inherited, **environment}, [str(option) for option in options]
    if bare and WITHOUT_RIGHTS:  # which a process gives up as it starts a program
        return subprocess.run(
            [*WITHOUT_RIGHTS, *COMMAND, *arguments], capture_output=True, text=True, env=given, check=False
        )
    done = run_to_end("crdtsyncd", COMMAND, arguments, environment=given, timeout_s=60)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def assert_refused(done: subprocess.CompletedProcess[str], status: int, *parts: str) -> str:
    """It ended with ``status`` and one sentence on stderr that holds ``parts``."""
    assert done.returncode == status, done.stderr
    *logged, sentence = done.stderr.strip().splitlines()
    assert all(line.startswith("{") for line in logged), done.stderr
    assert sentence.startswith("crdtsyncd: "), done.stderr
    assert "Traceback" not in done.stderr
    assert_sentence(sentence)
    for part in parts:
        assert part in sentence, sentence
    return sentence


@pytest.fixture
def at(tmp_path: Path, short: Path) -> list[object]:
    """Options that make a daemon start in directories of its own."""
    return ["--data-dir", tmp_path / "data", "--socket", short / "run" / "a", "--node-name", "tested"]


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path fits into a socket's."""
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="cs", dir="/tmp"))
    yield path
    shutil.rmtree(path)


# -- configuration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", [True, False])
def test_a_bad_configuration_ends_it_before_anything_is_made(tmp_path: Path, check: bool) -> None:
    file = tmp_path / "crdtsyncd.toml"
    file.write_text(f"data_dir = '{tmp_path}/data'\ncolour = 'red'")
    options = ["--config", file, *(["--check-config"] if check else [])]
    assert_refused(run(*options), CONFIG, str(file), "colour", "node_name")
    assert not (tmp_path / "data").exists()


def test_options_are_checked_as_the_file_is() -> None:
    assert_refused(run("--node-name", "Has Spaces"), CONFIG, "node_name", "Has Spaces")
    assert_refused(run("--listen", "0.0.0.0:1", "--insecure-loopback"), CONFIG, "loopback")


def test_the_environment_is_checked_as_the_file_is() -> None:
    assert_refused(run(CRDTSYNC_AGENTS_MAX="many"), CONFIG, "agents_max", "many")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert_refused(run("--config", tmp_path / "absent.toml"), CONFIG, "absent.toml", "No such file")


def test_unknown_options_and_operands_are_refused() -> None:
    for options in (["--colour"], ["start"]):
        done = run(*options)
        assert done.returncode == CONFIG
        assert "Traceback" not in done.stderr
        assert "crdtsyncd: " in done.stderr


def test_check_config_of_a_good_file_says_so_and_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "crdtsyncd.toml"
    file.write_text(f"data_dir = '{tmp_path}/data'\nsocket = '{tmp_path.parent}/s'\n")
    done = run("--config", file, "--check-config")
    assert (done.returncode, done.stderr) == (0, "")
    assert "valid" in done.stdout
    assert not (tmp_path / "data").exists()


def test_options_override_the_environment_which_overrides_the_file(at: list[object], short: Path) -> None:
    file = short / "crdtsyncd.toml"
    file.write_text("node_name = 'from-file'\nlog_format = 'json'\nagents_max = 1\npeers_max = 1")
    environment = {**os.environ, "CRDTSYNC_NODE_NAME": "from-environment", "CRDTSYNC_AGENTS_MAX": "2"}
    command = [*COMMAND, "--config", str(file), *map(str, at)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True) as process:
        try:
            assert process.stderr is not None
            ready = json.loads(next(line for line in process.stderr if '"ready"' in line))
            assert ready["node"] == "tested"
            with RawAgent(short / "run" / "a"), RawAgent(short / "run" / "a"):
                pass
        finally:
            process.kill()


# -- what is in the way ------------------------------------------------------------------------------------------------


def test_a_second_daemon_on_the_same_data_directory(daemon: Daemon, short: Path) -> None:
    with undisturbed(daemon) as witness:
        done = run("--data-dir", daemon.data, "--socket", short / "a")
        assert_refused(done, FAILED, str(daemon.data), str(daemon.pid), "--data-dir")
        witness.works()


def test_a_copy_of_a_data_directory_while_the_first_runs(daemon: Daemon, short: Path) -> None:
    with daemon.raw() as agent:
        agent.write("set", key="k", value=1)
    shutil.copytree(daemon.data, short / "copy")
    with undisturbed(daemon) as witness:
        done = run("--data-dir", short / "copy", "--socket", daemon.run / "b")
        assert_refused(done, FAILED, "another crdtsyncd", "copy")
        witness.works()
    assert not (daemon.run / "b").exists()


def test_a_socket_that_another_daemon_listens_on(daemon: Daemon, tmp_path: Path) -> None:
    with undisturbed(daemon) as witness:
        done = run("--data-dir", tmp_path / "data", "--socket", daemon.socket)
        assert_refused(done, FAILED, str(daemon.socket), "--socket")
        witness.works()
    assert daemon.socket.is_socket()


def test_a_socket_of_a_daemon_that_is_frozen_is_not_taken(daemon: Daemon, tmp_path: Path) -> None:
    daemon.freeze()
    try:
        done = run("--data-dir", tmp_path / "data", "--socket", daemon.socket)
        assert_refused(done, FAILED, str(daemon.socket), "--socket")
    finally:
        daemon.thaw()
    assert daemon.status()["node"]["state"] == "ready"


def test_a_regular_file_in_the_place_of_the_socket_is_left_alone(at: list[object], short: Path) -> None:
    (short / "run").mkdir()
    (short / "run" / "a").write_text("precious")
    assert_refused(run(*at), CONFIG, str(short / "run" / "a"), "not a socket", "--socket")
    assert (short / "run" / "a").read_text() == "precious"


def test_a_directory_in_the_place_of_the_socket(at: list[object], short: Path) -> None:
    (short / "run" / "a").mkdir(parents=True)
    assert_refused(run(*at), CONFIG, "not a socket")


def test_a_socket_path_that_is_too_long(at: list[object], short: Path) -> None:
    path = short / ("x" * 100)
    assert_refused(run(*at, "--socket", path), CONFIG, f"socket = '{path}'", "107")


@pytest.mark.parametrize("option, status", [("--data-dir", FAILED), ("--config", CONFIG)])
def test_what_may_not_be_read_is_named(at: list[object], tmp_path: Path, option: str, status: int) -> None:
    secret = tmp_path / "secret"
    secret.mkdir(mode=0)
    assert_refused(run(*at, option, secret, bare=True), status, f"{secret}: ")


def test_a_stale_socket_is_replaced(daemon: Daemon) -> None:
    daemon.kill()
    assert daemon.socket.is_socket()
    daemon.start()
    with daemon.raw() as agent:
        agent.write("set", key="k", value=1)


def test_a_port_that_is_in_use(at: list[object], daemon: Daemon) -> None:
    with undisturbed(daemon) as witness:
        done = run(*at, "--listen", daemon.address, "--insecure-loopback")
        assert_refused(done, FAILED, daemon.address, "in use", "--listen")
        witness.works()
    assert not Path(str(at[3])).exists(), "the socket is gone again"


def test_an_address_that_this_machine_does_not_have(at: list[object]) -> None:
    assert_refused(run(*at, "--listen", "[::1%nowhere]:7420", "--insecure-loopback"), FAILED, "listen")


def test_directories_that_cannot_be_made(tmp_path: Path, short: Path) -> None:
    (short / "file").write_text("")
    assert_refused(
        run("--data-dir", short / "file" / "data", "--socket", short / "a"), FAILED, "file/data", "--data-dir"
    )
    assert_refused(run("--data-dir", short / "file", "--socket", short / "a"), FAILED, "file", "--data-dir")
    assert_refused(run("--data-dir", tmp_path, "--socket", short / "file" / "a"), CONFIG, "file", "--socket")


@pytest.fixture
def read_only(short: Path) -> Iterator[Path]:
    """A directory on a file system that cannot be written."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount")
    place = short / "ro"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "crdtsync-test", place], check=False).returncode != 0:
        pytest.skip("cannot mount here")
    yield place
    subprocess.run(["umount", place], check=True)


def test_directories_that_may_not_be_written(read_only: Path, short: Path) -> None:
    done = run("--data-dir", read_only / "data", "--socket", short / "a")
    assert_refused(done, FAILED, str(read_only), "Read-only", "--data-dir")
    done = run("--data-dir", short / "data", "--socket", read_only / "a")
    assert_refused(done, FAILED, str(read_only), "Read-only", "writable")


def test_a_data_directory_that_may_be_read_alone(daemon: Daemon, short: Path) -> None:
    daemon.stop()
    daemon.data.chmod(0o500)
    try:
        done = run("--data-dir", daemon.data, "--socket", short / "a", bare=True)
    finally:
        daemon.data.chmod(0o700)
    assert "backup" not in assert_refused(done, FAILED, f"cannot write to the directory {daemon.data}")


# -- databases that it must not touch ----------------------------------------------------------------------------------


def fingerprint(directory: Path) -> dict[str, str]:
    """Every file of the database, by its bytes."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.iterdir())
        if path.name.startswith("crdtsync.db")
    }


@pytest.mark.parametrize("journal_mode", ["wal", "delete"])
def test_a_newer_format_is_left_untouched_byte_for_byte(daemon: Daemon, short: Path, journal_mode: str) -> None:
    daemon.stop()
    with sqlite3.connect(daemon.data / "crdtsync.db") as db:
        db.execute(f"PRAGMA journal_mode = {journal_mode}")
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = fingerprint(daemon.data)
    done = run("--data-dir", daemon.data, "--socket", short / "a")
    assert_refused(done, UNFIT, "newer", "99", "upgrade")
    assert fingerprint(daemon.data) == before


def test_a_newer_format_in_the_write_ahead_log_is_left_untouched(daemon: Daemon, short: Path) -> None:
    """A newer daemon was killed: its format stands in the log that it could not fold in."""
    daemon.stop()
    original = short / "newer"
    shutil.copytree(daemon.data, original)
    db = sqlite3.connect(original / "crdtsync.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("PRAGMA user_version = 99")
    shutil.copytree(original, short / "killed")
    db.close()
    before = fingerprint(short / "killed")
    assert "crdtsync.db-wal" in before
    done = run("--data-dir", short / "killed", "--socket", short / "a")
    assert_refused(done, UNFIT, "newer", "99", "upgrade")
    assert fingerprint(short / "killed") == before


def test_a_database_of_another_program_is_left_untouched(short: Path) -> None:
    (short / "data").mkdir()
    with sqlite3.connect(short / "data" / "crdtsync.db") as db:
        db.execute("PRAGMA application_id = 12345")
        db.execute("CREATE TABLE mine (x)")
        db.execute("PRAGMA user_version = 1")
    db.close()
    before = fingerprint(short / "data")
    assert_refused(run("--data-dir", short / "data", "--socket", short / "a"), UNFIT, "crdtsync.db")
    assert fingerprint(short / "data") == before


@pytest.mark.parametrize(
    "damage", ["garbage", "header", "truncated", "page 1", "every page", "a directory", "an empty file"]
)
def test_a_damaged_database_is_refused_in_a_sentence(daemon: Daemon, short: Path, damage: str) -> None:
    with daemon.raw() as agent:
        for i in range(200):
            agent.write("set", key=f"k/{i}", value="x" * 200)
    daemon.stop()
    file = daemon.data / "crdtsync.db"
    data = bytearray(file.read_bytes())
    match damage:
        case "garbage":
            data = bytearray(os.urandom(len(data)))
        case "header":
            data[:16] = b"SQLite format 9\0"
        case "truncated":
            del data[len(data) // 3 :]
        case "page 1":
            data[100:4096] = b"\xff" * 3996
        case "every page":
            for start in range(4096, len(data), 4096):
                data[start : start + 100] = b"\xff" * 100
        case "an empty file":
            data = bytearray()
    file.unlink()
    if damage == "a directory":
        file.mkdir()
    else:
        file.write_bytes(data)
    if damage == "an empty file":
        commits = daemon.data / "crdtsync.db-commits"
        assert_refused(run("--data-dir", daemon.data, "--socket", short / "a"), UNFIT, commits.name)
        commits.unlink()
        daemon.start()  # as if it were the first start
        assert daemon.space()["keys"] == 0
        return
    done = run("--data-dir", daemon.data, "--socket", short / "a")
    assert_refused(done, FAILED, "crdtsync.db")
    if damage != "a directory":
        assert file.read_bytes() == bytes(data), "what can perhaps be rescued is left as it was"


def test_damage_that_shows_while_it_runs_ends_it_with_a_sentence(daemon: Daemon) -> None:
    with daemon.raw() as agent:
        for i in range(300):
            agent.write("set", key=f"k/{i}", value=os.urandom(2000))
    daemon.stop()
    file = daemon.data / "crdtsync.db"
    with sqlite3.connect(file) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'changes'").fetchone()
        (page_size,) = db.execute("PRAGMA page_size").fetchone()
    db.close()
    with file.open("r+b") as raw:
        raw.seek((root - 1) * page_size)
        raw.write(b"\xff" * 200)
    daemon.start(wait=False)
    with suppress(AssertionError):  # it may find the damage before it is ready
        daemon.wait_ready()
    with pytest.raises((RawError, EOFError, OSError)), daemon.raw() as agent:  # or it has found the damage by then
        _use(agent)
    assert daemon.wait_exit() == FAILED
    assert_clean(daemon)
    assert_sentence(daemon.log_lines()[-1])
    assert daemon.log_lines()[-1].startswith("crdtsyncd: ")


def _use(agent: RawAgent) -> None:
    for _ in range(50):
        agent.write("set", key="k/1", value=2)
        agent.call("watch", prefix="", after="c1.kZOnZGVmYXVsdACQ")
        agent.call("get", key="k/1")


def test_a_data_directory_that_is_removed_while_it_runs_ends_it_with_a_sentence(daemon: Daemon) -> None:
    shutil.rmtree(daemon.data)
    assert daemon.wait_exit() == FAILED
    assert_clean(daemon)
    assert str(daemon.data) in daemon.log_lines()[-1]
    assert_sentence(daemon.log_lines()[-1])


# -- reload and stop ---------------------------------------------------------------------------------------------------


def test_a_reload_takes_what_can_change_and_names_what_needs_a_restart(make_cluster: Any) -> None:
    with make_cluster(2) as pair:
        first, second = pair
        with undisturbed(first) as witness:
            peers = first.settings["peers"]
            mark = len(first.log_lines())
            first.reload(peers=[], agents_max=17)
            event = first.wait_log("reloaded", after=mark)
            assert event["needs_restart"] == ["agents_max"]
            witness.works()
            second.reload(peers=[])
            wait_until(lambda: (first.peer(second.name) or {}).get("state") != "connected", what="nobody dials")
            with second.raw() as agent:
                agent.write("set", key="alone", value=1)
            first.reload(peers=peers)
            wait_until_equal(pair)
            assert first.peer(second.name)["state"] == "connected"
        assert_clean(second)


def test_a_bad_file_at_reload_is_logged_and_changes_nothing(daemon: Daemon) -> None:
    with undisturbed(daemon) as witness:
        for text in ("agents_max = 0", "nonsense = 1", "node_name = ", "listen = ['0.0.0.0:port']"):
            mark = len(daemon.log_lines())
            (daemon.base / "crdtsyncd.toml").write_text(text)
            os.kill(daemon.pid, signal.SIGHUP)
            event = daemon.wait_log("reload_refused", after=mark)
            assert_sentence(event["reason"])
            witness.works()
        (daemon.base / "crdtsyncd.toml").unlink()
        mark = len(daemon.log_lines())
        os.kill(daemon.pid, signal.SIGHUP)
        assert "No such file" in daemon.wait_log("reload_refused", after=mark)["reason"]


def test_sigterm_ends_it_in_time_whatever_agents_and_peers_do(make_cluster: Any) -> None:
    with make_cluster(2) as pair:
        daemon = pair[0]
        waiting = [daemon.raw(f"waiting-{i}") for i in range(50)]
        for agent in waiting:
            agent.send("wait", token="c1.kZOnZGVmYXVsdACSBQU", timeout=3_600_000)
            agent.call("watch", prefix="")
        silent = [socket.create_connection((daemon.address.split(":")[0], daemon.port)) for _ in range(5)]
        deaf = daemon.raw("deaf")
        deaf.write("set", key="large", value=bytes(1_000_000))
        asked = [msgpack.packb([number, "get", {"key": "large"}]) for number in range(1000, 1100)]
        deaf.send_bytes(b"".join(struct.pack(">I", len(frame)) + frame for frame in asked))  # at once: it may not block
        half = daemon.raw(None)
        half.send_bytes(b"\0\0")
        token = deaf_token(daemon)
        assert daemon.stop() == 0
        for agent in waiting:
            agent.wait_closed(1)
        for connection in (*waiting, *silent, deaf, half):
            connection.close()
        assert_clean(daemon)
        assert not daemon.socket.exists()
        daemon.start()
        with daemon.raw() as agent:
            assert agent.call("get", key="last", after=token) is not None
        pair.wait_connected()
        wait_until_equal(pair)


def deaf_token(daemon: Daemon) -> str:
    """A write just before the end: it is acknowledged, so it must be there afterwards."""
    with daemon.raw("last") as agent:
        return str(agent.write("set", key="last", value=1)["token"])


def test_a_write_under_way_at_sigterm_is_done_or_not_acknowledged(daemon: Daemon) -> None:
    acknowledged: list[int] = []
    with daemon.raw("busy") as busy:
        thread = threading.Thread(target=_write_on, args=(busy, acknowledged))
        thread.start()
        wait_until(lambda: len(acknowledged) > 100, what="writes are under way")
        assert daemon.stop() == 0
        thread.join(60)
    daemon.start()
    with daemon.raw() as agent:
        for i in acknowledged:
            assert agent.call("get", key=f"busy/{i}") is not None
    assert_clean(daemon)


def _write_on(agent: RawAgent, acknowledged: list[int]) -> None:
    try:
        for i in range(1_000_000):
            agent.write("set", key=f"busy/{i}", value=i)
            acknowledged.append(i)
    except (EOFError, OSError):
        return


def test_a_second_signal_while_it_stops_does_no_harm(daemon: Daemon) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        os.kill(daemon.pid, number)
    assert daemon.wait_exit() == 0
    assert_clean(daemon)


def test_a_daemon_whose_socket_was_taken_over_leaves_it_alone_when_it_stops(daemon: Daemon, make_daemon: Any) -> None:
    daemon.socket.unlink()
    other = make_daemon("taker", socket=str(daemon.socket))
    other.socket = daemon.socket
    daemon.stop()
    assert other.status()["node"]["name"] == "taker"


def test_killed_and_started_again_it_goes_on_with_all_that_was_acknowledged(daemon: Daemon) -> None:
    for round_number in range(3):
        with daemon.raw() as agent:
            agent.write("set", key=f"round/{round_number}", value=round_number)
        daemon.kill()
        assert daemon.socket.is_socket(), "a crash leaves the socket behind"
        daemon.start()
    with daemon.raw() as agent:
        assert all(agent.call("get", key=f"round/{i}") is not None for i in range(3))
    assert len(daemon.space()["version_vector"]) == 1, "it goes on as the same writer"
    assert_clean(daemon)


NOTES_IMPORTS = """
import json, os, sys
_, _, file = sys.argv  # a service has no options, and its file where it is looked for
place = os.path.join(os.environ["XDG_CONFIG_HOME"], "crdtsync", "crdtsyncd.toml")
os.makedirs(os.path.dirname(place), exist_ok=True)
os.path.exists(place) or os.symlink(file, place)
del sys.argv[1:]
from crdtsyncd.main import main
from crdtsyncd.serve import Service
make = Service._make_fleet
async def noting(self):
    with open(os.environ["IMPORTS"], "w") as file:
        json.dump(sorted(sys.modules), file)
    return await make(self)
Service._make_fleet = noting
main()
"""
LATE = {
    "click", "cryptography", "websockets", "structlog", "zeroconf", "prometheus_client", "pydantic", "pycrdt", "rich",
    "email", "http", "importlib.metadata", "ctypes", "shutil", "crdtsyncd.config.model",
    "crdtsyncd.cluster.cluster_runtime", "crdtsyncd.security.node_key",
    "crdtsyncd.security.tls", "crdtsyncd.peers.websocket_peer", "crdtsyncd.telemetry.prometheus", "crdtsyncd.cli",
}  # fmt: skip


def test_agents_are_served_before_what_they_do_not_need_is_imported(
    make_daemon: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those imports are half of what a start takes. (The first start of all makes a key, and is another matter.)"""
    monkeypatch.setenv("IMPORTS", str(tmp_path / "imports"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    daemon = make_daemon(program=NOTES_IMPORTS, insecure_loopback=False)
    assert daemon.stop() == 0
    daemon.start()
    loaded = set(json.loads((tmp_path / "imports").read_text()))
    assert {"crdtsyncd.loop.agent_socket", "crdtsync.core.node"} <= loaded
    assert loaded & LATE == set()
    assert daemon.client().set("key", 1)
    assert daemon.stop() == 0
