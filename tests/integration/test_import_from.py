"""What people have elsewhere is brought over, once and whole: from a real Redis server, and from files."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer
from typing import Any

import pytest
from redis import Redis

from benchmarks.rivals.install import install_programs
from benchmarks.rivals.processes import answers
from crdtsync.context import Memory
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
    with Redis.from_url(url) as redis:
        redis.set("user:17:name", "Ada")
        redis.set("user:17:prefs", '{"a": [1, 2.5]}', px=500_000)
        redis.set("bytes", b"\xff\x00")
        redis.set("long", long)
        redis.hset("hash", mapping={"one": "1", "two": b"\xff"})
        redis.rpush("list", *(f"element {n}" for n in range(2_500)))
        redis.sadd("set", "x", "y")
        redis.zadd("scores", {"m": 1.5, "n": -2})
        redis.xadd("stream", {"field": "value"}, id="1-1")
        redis.set("a\x01b", "a key that cannot be one here")
        redis.mset({"c/b": "slash", "c:b": "colon", "d/e:f": "either", "d:e/f": "either", "g/h": "alone"})
        redis.mset(dict.fromkeys(("x/y/z", "x/y:z", "x:y/z"), "three"))
        redis.mset({f"many:{n}": n for n in range(1_200)})

        def run(*options: str) -> tuple[Any, str]:
            done = shell("--json", "import-from", "redis", url, "--parse-json", *options)
            assert done.status == 0, done.err
            return json.loads(done.out), done.err

        nothing = {"replaced": 0, "added": 0, "skipped": 0}
        assert run("--dry-run")[0] == {"created": 1_213, "unchanged": 0, "left_out": 5, **nothing}
        assert state.keys("redis/") == []
        counts, told = run()
        assert counts == {"created": 1_213, "unchanged": 0, "left_out": 5, **nothing}
        assert "c/b was left out: redis/c/b is what c:b becomes" in told
        assert [state.get(f"redis/{key}") for key in ("c/b", "d/e/f", "g/h")] == ["colon", "either", "alone"]
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
        redis.set("many:8", "changed")
        assert run()[0] == {**nothing, "created": 1, "unchanged": 1_211, "skipped": 1, "left_out": 5}
        alone = {**nothing, "created": 1, "unchanged": 0}
        assert run("--match", "c/*", "--prefix", "one/")[0] == alone, "this run does not bring c:b"
        assert run("--match", "[^d]/\\b", "--prefix", "two/")[0] == alone
        assert run("--match", "c[:/]?", "--prefix", "three/")[0] == {**alone, "left_out": 1}
        assert run("--on-conflict", "set", "--match", "many:*")[0]["replaced"] == 1
        assert (state.get("redis/many/7"), state.get("redis/many/8")) == (7, "changed")


def test_what_is_no_redis_server(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    for url, said in (
        (f"redis://ada:secret@127.0.0.1:{port}/0", f"at 'redis://127.0.0.1:{port}/0': Error 111"),
        ("http://ada:secret@127.0.0.1", "at 'http://127.0.0.1': Redis URL must specify one of"),
        (f"redis+unix://{daemon.socket}", "Redis URL must specify one of"),
        ("redis://127.0.0.1:port", "Port could not be cast"),
        (f"unix://{tmp_path}/nothing", "Error 2 connecting"),
    ):
        done = shell("import-from", "redis", url)
        assert (done.status, said in done.err, "secret" in done.err) == (4, True, False), done


REPLIES = {
    "a string that does not come": b"$9999999999999\r\n",
    "lists in each other": b"*1\r\n" * 50_000,
    "no end": b"+" + b"x" * 100_000,
    "numbers": b":7\r\n" * 3,
    "not the length of a string": b"$many\r\n",
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


def test_a_server_that_answers_as_redis_never_does(daemon: Daemon, tmp_path: Path) -> None:
    reply = b""

    class Answer(BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(reply)

    shell = Shell(daemon.socket, tmp_path)
    with TCPServer(("127.0.0.1", 0), Answer) as server:
        running = beside(server.serve_forever, 0.05)
        for told, reply in REPLIES.items():  # noqa: B007 - the server sends it
            done = shell("import-from", "redis", f"redis://127.0.0.1:{server.server_address[1]}")
            assert (done.status, "Redis server that can be read" in done.err) == (4, True), (told, done)
        server.shutdown()
        running.result()


MEM0: list[Any] = [
    {
        "id": "892db2ae", "memory": "Prefers night trains", "user_id": "ada", "hash": "bf5d", "role": "user",
        "metadata": {"topic": "travel"}, "created_at": "2026-05-04T23:57:00.108347-07:00", "updated_at": None,
    },
    {"id": "a/b", "memory": "plays the cello", "agent_id": "critic", "created_at": "2026-05-04T10:00:00"},
    {"id": "1", "memory": "whose is it?"}, {"id": "2", "memory": "", "user_id": "ada"}, 3,
    {"id": "3", "memory": "when?", "user_id": "ada", "created_at": "soon"},
]  # fmt: skip


def test_memories_of_mem0(daemon: Daemon, tmp_path: Path) -> None:
    shell, state = Shell(daemon.socket, tmp_path), daemon.client()
    (tmp_path / "memories.json").write_text(json.dumps({"results": MEM0}))

    def run(*options: str) -> dict[str, int]:
        done = shell("--json", "import-from", "mem0", "memories.json", *options)
        assert (done.status, done.err.count("was left out")) == (0, 4), done.err
        return {outcome: count for outcome, count in json.loads(done.out).items() if count}

    assert run("--dry-run") == {"created": 2, "left_out": 4}
    assert state.keys("memory/") == []
    assert run() == {"created": 2, "left_out": 4}
    memory = Memory(state, folder=tmp_path / "index")
    (train,) = memory.search("train", user_id="ada")["results"]
    assert (train["id"], train["memory"]) == ("user/ada/892db2ae", "Prefers night trains")
    assert train["metadata"] == {"topic": "travel", "role": "user"}
    assert train["created_at"] == "2026-05-05T06:57:00.108+00:00"
    (cello,) = memory.get_all(agent_id="critic")["results"]
    assert (cello["memory"], cello["created_at"]) == ("plays the cello", "2026-05-04T10:00:00.000+00:00")
    memory.update(train["id"], "prefers boats")
    assert run() == {"unchanged": 1, "skipped": 1, "left_out": 4}
    assert memory.search("boats", user_id="ada")["results"][0]["memory"] == "prefers boats"


def test_what_is_no_file_of_memories(daemon: Daemon, tmp_path: Path) -> None:
    shell = Shell(daemon.socket, tmp_path)
    for content in (b"{", b"\xff", b"{}", b'{"results": 3}', b"[NaN]"):
        (tmp_path / "memories.json").write_bytes(content)
        done = shell("import-from", "mem0", "memories.json")
        assert (done.status, "memories.json" in done.err) == (4, True), done
