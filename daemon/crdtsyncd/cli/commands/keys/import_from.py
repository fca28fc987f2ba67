"""``import-from``: what people have elsewhere."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import StateGroup
from crdtsyncd.cli.commands.keys.import_ import policy_option, report
from crdtsyncd.cli.connect import async_client, connect
from crdtsyncd.cli.data.export_records import record_of
from crdtsyncd.cli.data.importer import Importer
from crdtsyncd.cli.data.kinds import BLOB_PART
from crdtsyncd.cli.errors import CommandFailed, refused_value
from crdtsyncd.cli.params import TEXT
from crdtsyncd.cli.shared_options import file_argument
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crdtsyncd.cli.command import Settings
    from crdtsyncd.cli.data.export_records import ExportRecord
    from crdtsyncd.cli.data.mem0_memories import Mem0Memories
    from crdtsyncd.cli.data.redis_keys import RedisKeys

REDIS_LISTED_MAX = 1_000_000  # the most that its search gives
NAMES = ("thread_id", "checkpoint_ns", "checkpoint_id")

_dry_run_option = click.option("--dry-run", is_flag=True, help="Count what would be written, and write nothing.")


@click.group("import-from", cls=StateGroup)
def import_from() -> None:
    """Bring over what you have elsewhere. It can be repeated: what is there already stays."""


@import_from.command("redis")
@click.argument("url", type=TEXT)
@click.option("--match", metavar="PATTERN", default="*", help="Only the keys that match, as Redis understands it.")
@click.option("--prefix", default="redis/", show_default=True, help="What the keys begin with here.")
@click.option("--separator", default=":", show_default=True, help="What divides the parts of a name.")
@click.option("--parse-json", is_flag=True, help="Store a string that is JSON as what it says.")
@policy_option
@_dry_run_option
def redis(
    settings: Settings,
    url: str,
    match: str,
    prefix: str,
    separator: str,
    parse_json: bool,
    policy: str,
    dry_run: bool,
) -> None:
    """Bring over the keys of a Redis server: redis://HOST:PORT/DB, rediss://… or unix:///PATH.

    A string becomes a register, or a blob if it has over 1 MB; a hash a map; a list a log; a set a set; a sorted set a
    map of scores; a stream a log. The key `user:17:name` becomes `redis/user/17/name`. Strings keep their time to
    live. Redis is only read. What has no place here is told and left out. It needs `pip install 'crdtsync[redis]'`.

    \b
    Example:
      crdtsync import-from redis redis://localhost/0 --match 'session:*' --parse-json
    """
    from crdtsyncd.cli.data.redis_keys import RedisKeys

    _bring_keys(settings, RedisKeys(url, match, prefix, separator, parse_json=parse_json), policy, dry_run=dry_run)


@import_from.command("mem0")
@file_argument("file")
@click.option("--prefix", default="memory/", show_default=True, help="The prefix of the memory that is to have them.")
@_dry_run_option
def mem0(settings: Settings, file: IO[bytes], prefix: str, *, dry_run: bool) -> None:
    """Bring over memories of mem0. FILE is what its `get_all` returns, as JSON.

    They are found by `memory search` as those that were added here, for the same users, agents and runs. When and by
    whom they were made stays. A memory that has changed here since it was brought over stays as it is here.

    \b
    Example:
      crdtsync import-from mem0 memories.json --dry-run
    """
    from crdtsyncd.cli.data.mem0_memories import Mem0Memories

    _bring_keys(settings, Mem0Memories(file, prefix), "skip", dry_run=dry_run)


def _bring_keys(settings: Settings, keys: RedisKeys | Mem0Memories, policy: str, *, dry_run: bool) -> None:
    with connect(settings) as client:
        importer = Importer(client, policy)
        write = importer.foretell if dry_run else importer.write
        with Progress("keys", keys.count()) as progress:
            for _ in write(_records(keys)):
                progress.advance(sum(importer.counts.values()) - progress.count)
    report(settings, importer, dry_run=dry_run, left_out=keys.left_out)


def _records(keys: RedisKeys | Mem0Memories) -> Iterator[ExportRecord]:
    """The records that can be stored; for the others a line says why not."""
    refused = None
    for line in keys.lines():
        key = line.fields["key"]
        if key == refused and line.fields["kind"] == BLOB_PART:
            continue
        try:
            yield record_of(line)
        except CommandFailed as error:
            refused = key
            keys.leave_out(line.file, error.message.removeprefix(f"{line.file}:{line.number}: "))


@import_from.command("langgraph-sqlite")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--prefix", default="langgraph", show_default=True, help="The prefix of the saver that is to have them.")
@_dry_run_option
def langgraph_sqlite(settings: Settings, file: str, prefix: str, dry_run: bool) -> None:
    """Bring over the checkpoints of LangGraph's SqliteSaver, whose database FILE is.

    CrdtSaver goes on from there. FILE is only read. A row that is no checkpoint is told and left out. It needs the
    packages that wrote it: langgraph and langgraph-checkpoint-sqlite, in the environment of this command.

    \b
    Example:
      crdtsync import-from langgraph-sqlite checkpoints.sqlite --dry-run
    """
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError as error:
        raise _lacking(error, "langgraph-checkpoint-sqlite") from None
    try:
        with closing(sqlite3.connect(f"{Path(file).absolute().as_uri()}?mode=ro", uri=True)) as database:
            source = SqliteSaver(database)
            source.is_setup = True  # else it makes its tables where it finds none
            # Text that is no UTF-8 is read all the same, and refused when it is used: so one row fails, and not the
            # list.
            database.text_factory = lambda text: text.decode(errors="surrogateescape")
            database.execute("BEGIN")  # what its program removes meanwhile stays there for this command
            rows = database.execute(f"SELECT {', '.join(NAMES)} FROM checkpoints ORDER BY checkpoint_id DESC")
            _bring_checkpoints(settings, source, prefix, dry_run=dry_run, configs=_configs(rows))
    except sqlite3.DatabaseError as error:
        raise refused_value(f"cannot read {file} as a database of LangGraph's SqliteSaver: {error}") from None


@import_from.command("langgraph-redis")
@click.argument("url", type=TEXT)
@click.option("--prefix", default="langgraph", show_default=True, help="The prefix of the saver that is to have them.")
@_dry_run_option
def langgraph_redis(settings: Settings, url: str, prefix: str, dry_run: bool) -> None:
    """Bring over the checkpoints of LangGraph's RedisSaver, whose server is at URL.

    CrdtSaver goes on from there. Redis is only read. What is no checkpoint is told and left out. It needs the packages
    that wrote it: langgraph and langgraph-checkpoint-redis, in the environment of this command.

    \b
    Example:
      crdtsync import-from langgraph-redis redis://localhost/0 --dry-run
    """
    try:
        from langgraph.checkpoint.redis import RedisSaver
        from redis import RedisError
        from redisvl.exceptions import RedisVLError
        from redisvl.query import FilterQuery
    except ImportError as error:
        raise _lacking(error, "langgraph-checkpoint-redis") from None
    from crdtsyncd.cli.data.redis_keys import without_password

    try:
        with RedisSaver.from_conn_string(url) as source:
            query = FilterQuery(return_fields=[*NAMES], num_results=REDIS_LISTED_MAX, sort_by=("checkpoint_id", "DESC"))
            rows = [[getattr(each, name, "") for name in NAMES] for each in source.checkpoints_index.search(query).docs]
            _bring_checkpoints(settings, source, prefix, dry_run=dry_run, configs=_configs(rows))
    except (OSError, RedisError, RedisVLError, ValueError) as error:
        shown = without_password(url)
        raise refused_value(f"no checkpoints of LangGraph's RedisSaver can be read at {shown!r}: {error}") from None


def _configs(rows: Iterable[Sequence[str]]) -> list[dict[str, dict[str, str]]]:
    """What names the checkpoints one by one, so that one that cannot be read does not end the list."""
    return [{"configurable": dict(zip(NAMES, row, strict=True))} for row in rows]


def _lacking(error: ImportError, package: str) -> CommandFailed:
    return refused_value(f"{error.name} is missing: pip install {package} 'crdtsync[langgraph]'")


def _bring_checkpoints(settings: Settings, source: Any, prefix: str, *, dry_run: bool, **which: Any) -> None:
    try:
        from crdtsync.adapters.langgraph import bring_over
    except ImportError as error:
        raise _lacking(error, "langgraph") from None
    counts: Counter[str] = Counter()
    with connect(settings) as client, Progress("checkpoints") as shown:
        for is_new in bring_over(source, client, prefix=prefix, dry_run=dry_run, **which):
            counts["left_out" if is_new is None else "created" if is_new else "unchanged"] += 1
            shown.advance()
    fields = {outcome: counts[outcome] for outcome in ("created", "unchanged")}
    fields |= {"left_out": counts["left_out"]} if counts["left_out"] else {}
    plain = ", ".join(f"{count:,} {outcome.replace('_', ' ')}" for outcome, count in fields.items())
    output.result(settings, plain + (", if it were done" if dry_run else ""), fields)


@import_from.command("memory-server")
@file_argument("file")
@_dry_run_option
def memory_server(settings: Settings, file: IO[bytes], *, dry_run: bool) -> None:
    """Bring over what FILE holds, the file of the reference memory server.

    A line that is not of such a file, or that cannot be stored, is told and left out. `mcp serve
    --memory-server` then offers it.

    \b
    Example:
      crdtsync import-from memory-server memory.jsonl --dry-run
    """
    import asyncio

    from crdtsync.mcp.memory.import_file import bring_over

    async def run() -> tuple[int, int, int]:
        async with async_client(settings) as client:
            lines = file.read().decode("utf-8", "replace").splitlines()
            return await bring_over(client, lines, dry_run=dry_run)

    entities, relations, left_out = asyncio.run(run())
    plain = f"{entities:,} entities and {relations:,} relations are new"
    plain += (f", {left_out:,} lines left out" if left_out else "") + (", if it were done" if dry_run else "")
    fields = {"entities": entities, "relations": relations, **({"left_out": left_out} if left_out else {})}
    output.result(settings, plain, fields)
