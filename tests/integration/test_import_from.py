"""What people have elsewhere is brought over, once and whole: from a real Redis server."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crdtsyncd.cli.data.redis_keys import Redis

from benchmarks.rivals.install import install_programs
from benchmarks.rivals.processes import answers
from tests.harness import Daemon, wait_until
from tests.harness.shell import Shell
from tests.harness.workers import beside

pytestmark = pytest.mark.integration


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Of a Redis server that this test alone has."""
    if shutil.which("redis-server") is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            pytest.skip("needs redis-server, or root and apt-get to install it")
        install_programs({"redis-server"})
    path = tmp_path / "redis"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(str(path)))
        yield f"unix://{path}"
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow  # may have to install Redis
def test_the_keys_of_a_redis_server(url: str, daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    state = daemon.client()
    long = os.urandom(1_500_000)
    with Redis(url) as redis:
        redis.ask("SET", "user:17:name", "Ada")
        redis.ask("SET", "user:17:prefs", '{"a": [1, 2.5]}', "PX", 500_000)
        redis.ask("SET", "bytes", b"\xff\x00")
        redis.ask("SET", "long", long)
        redis.ask("HSET", "hash", "one", "1", "two", b"\xff")
        redis.ask("RPUSH", "list", *(f"element {n}" for n in range(2_500)))
        redis.ask("SADD", "set", "x", "y")
        redis.ask("ZADD", "scores", "1.5", "m", "-2", "n")
        redis.ask("XADD", "stream", "1-1", "field", "value")
        redis.ask("SET", "a\x01b", "a key that cannot be one here")
        redis.ask_all(("SET", f"many:{n}", n) for n in range(1_200))

        def run(*options: str) -> tuple[Any, str]:
            done = shell("--json", "import-from", "redis", url, "--parse-json", *options)
            assert done.status == 0, done.err
            return json.loads(done.out), done.err

        nothing = {"replaced": 0, "added": 0, "skipped": 0}
        assert run("--dry-run")[0] == {"created": 1_209, "unchanged": 0, "left_out": 1, **nothing}
        assert state.keys("redis/") == []
        counts, told = run()
        assert counts == {"created": 1_209, "unchanged": 0, "left_out": 1, **nothing}
        assert "was left out" in told
        assert state.get("redis/user/17/name") == "Ada"
        assert state.get("redis/user/17/prefs") == {"a": [1, 2.5]}
        prefs, blob = state.entry("redis/user/17/prefs"), state.get_blob("redis/long")
        assert prefs is not None
        assert prefs.ttl is not None
        assert 0 < prefs.ttl <= 500
        assert state.get("redis/bytes") == b"\xff\x00"
        assert blob is not None
        assert blob.read() == long
        assert state.get("redis/hash") == {"one": "1", "two": b"\xff"}
        assert state.log("redis/list") == [f"element {n}" for n in range(2_500)]
        assert sorted(state.members("redis/set")) == ["x", "y"]
        assert state.get("redis/scores") == {"m": 1.5, "n": -2.0}
        assert state.log("redis/stream") == [{"id": "1-1", "fields": {"field": "value"}}]
        state.delete("redis/many/7")  # as if it had been ended half-way
        redis.ask("SET", "many:8", "changed")
        assert run()[0] == {**nothing, "created": 1, "unchanged": 1_207, "skipped": 1, "left_out": 1}
        assert run("--on-conflict", "set", "--match", "many:*")[0]["replaced"] == 1
        assert (state.get("redis/many/7"), state.get("redis/many/8")) == (7, "changed")


def test_what_is_no_redis_server(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    for url, said in (
        (f"redis://ada:secret@127.0.0.1:{port}/0", f"no Redis server answers at 'redis://127.0.0.1:{port}/0'"),
        ("http://ada:secret@127.0.0.1", "'http://127.0.0.1' is no address of a Redis server"),
        (f"redis+unix://{daemon.socket}", "is no address of a Redis server"),
        ("redis://127.0.0.1:port", "no Redis server answers"),
        (f"unix://{tmp_path}/nothing", "no Redis server answers"),
    ):
        done = shell("import-from", "redis", url)
        assert (done.status, said in done.err, "secret" in done.err) == (4, True, False), done


REPLIES = {
    "it announces a string of": b"$9999999999999\r\n",
    "closed the connection": b"*1\r\n" * 50_000,
    "or is no Redis server": b"+" + b"x" * 100_000,
    "its answers are not those of Redis": b":7\r\n*2\r\n:7\r\n:9\r\n",
    "invalid literal": b"$many\r\n",
}


@pytest.mark.parametrize("told", REPLIES)
def test_a_server_that_answers_as_redis_never_does(told: str, daemon: Daemon, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as asking:
                asking.sendall(REPLIES[told])
                while asking.recv(65536):
                    pass

        beside(answer)
        done = Shell(daemon.socket, tmp_path)("import-from", "redis", f"redis://127.0.0.1:{server.getsockname()[1]}")
    assert (done.status, told in done.err, "Traceback" in done.err) == (4, True, False), done
