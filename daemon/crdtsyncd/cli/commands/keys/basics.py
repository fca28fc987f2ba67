"""``set``, ``touch``, ``del`` and ``ls``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import all_entries, all_keys, connect, past
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import KEY, TEXT, TTL, WriteConcernValue
from crdtsyncd.cli.shared_options import (
    at_option,
    concern_option,
    condition_option,
    confidence_option,
    fields_of,
    if_absent_option,
    if_version_option,
    key_argument,
    prefix_argument,
    string_option,
    value_argument,
    value_of,
)
from crdtsyncd.cli.show import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crdtsync.client import Client, Entry, Session
    from crdtsync.client.values.points import Point

_BATCH_KEYS = 1000


@state_command("set")
@key_argument
@value_argument
@string_option
@click.option("--ttl", metavar="DURATION", type=TTL, help="Forget the value after this time, such as 30s or 7d.")
@if_version_option
@if_absent_option
@click.option("--seen", metavar="V", type=TEXT, help="Replace exactly what this version covers, siblings too.")
@confidence_option
@concern_option
def set_(settings: Settings, key: str, value: str, as_string: bool, **options: object) -> None:
    """Write a value, and print the token of the write.

    VALUE is JSON; "-" reads it from stdin. When the command returns, the write is on this host's disk, and with -w on
    that of so many nodes. Without a condition the value is replaced whatever it is. With --seen, what was written since
    that version lives on beside the new value, as a sibling. If a condition is false, nothing is written and the exit
    status is 1.

    \b
    Examples:
      crdtsync set plan/goal '{"text": "ship it"}'
      crdtsync set greeting --string hello --ttl 10m
    """
    chosen = {name: option for name, option in options.items() if option is not None and option is not False}
    _refuse_two(chosen, "if_version", "if_absent", "seen")
    content = value_of(value, as_string=as_string)
    with connect(settings) as client:
        written = client.set(key, content, **chosen)  # type: ignore[arg-type]  # click converted
    fields = {"token": written, "version": written.version, "siblings": written.siblings, "nodes": written.nodes}
    output.result(settings, written, fields)
    output.warn_of_lost(written)


@state_command("touch")
@key_argument
@click.option("--ttl", metavar="DURATION", type=TTL, help="Forget the value after this time from now, such as 30s.")
@click.option("--forever", is_flag=True, help="Keep it until somebody deletes it.")
@condition_option
def touch(settings: Settings, key: str, ttl: float | None, forever: bool, **conditions: Any) -> None:
    """Give a value another time to live, and print the token.

    The value stays as it is. If the key does not exist, the exit status is 1.

    \b
    Example:
      crdtsync touch present/critic --ttl 30s
    """
    if (ttl is None) != forever:
        raise click.UsageError("say how long: either --ttl DURATION or --forever.")
    with connect(settings) as client:
        if not client.touch(key, ttl, **conditions):
            raise absent(f"{key!r} does not exist")
        output.result(settings, client.last_token or "", {"token": client.last_token})


def _refuse_two(chosen: dict[str, object], *names: str) -> None:
    given = [f"--{name.replace('_', '-')}" for name in names if name in chosen]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other: leave one of them out.")


@state_command("del")
@click.argument("keys", metavar="KEY...", nargs=-1, type=KEY)
@click.option("--prefix", metavar="PREFIX", type=KEY, help="All keys that begin with PREFIX; prints how many.")
@condition_option
def delete(
    settings: Settings, keys: tuple[str, ...], prefix: str | None, if_version: str | None, w: WriteConcernValue | None
) -> None:
    """Delete keys, and print the token of the deletion.

    Keys of any kind go, with their siblings; up to 1,000 keys all at once. If a key does not exist, the others are
    deleted and the exit status is 1.

    \b
    Examples:
      crdtsync del plan/goal plan/steps
      crdtsync del --prefix scratch/
    """
    once = list(dict.fromkeys(keys))
    if bool(once) == (prefix is not None):
        raise click.UsageError("say what to delete: either keys, or --prefix PREFIX.")
    if prefix is not None:
        if if_version is not None:
            raise click.UsageError("--if-version is of one key: delete it alone.")
        with connect(settings) as client:
            count = client.delete_prefix(prefix, w=w)
            output.result(settings, str(count), {"token": client.last_token, "deleted": count})
        return
    if if_version is not None and len(once) > 1:
        raise click.UsageError("--if-version is of one key: delete it alone.")
    missing: list[str] = []
    with connect(settings) as client:
        for start in range(0, len(once), _BATCH_KEYS):
            missing += _delete(client, once[start : start + _BATCH_KEYS], if_version, w)
        token = client.last_token
    if len(missing) < len(once):
        output.result(settings, token or "", {"token": token, "deleted": len(once) - len(missing)})
    if missing:
        raise absent(f"{' and '.join(map(repr, missing))} {'does' if len(missing) == 1 else 'do'} not exist")


def _delete(client: Client, keys: list[str], if_version: str | None, w: WriteConcernValue | None) -> list[str]:
    """Delete as one change; those that did not exist."""
    with client.batch(w=w) as writes:
        for key in keys:
            writes.delete(key, if_version=if_version, seen=... if if_version is not None else None)
    return [key for key, existed in zip(keys, writes.results, strict=True) if not existed]


@state_command("ls")
@prefix_argument
@click.option("-n", "--limit", metavar="N", type=click.IntRange(1), help="Only the first N.")
@click.option("--reverse", is_flag=True, help="From the last key to the first.")
@click.option("--delimiter", metavar="D", type=TEXT, help='What lies below the next D as one line: "/" as directories.')
@click.option("--where-meta", metavar="JSON", type=TEXT, help="Only keys whose meta has these fields.")
@at_option
def ls(settings: Settings, prefix: str, where_meta: str | None, at: Point | None, **options: object) -> None:
    """Print the keys that begin with a prefix.

    All keys, without PREFIX; in order, one a line. Reserved keys, which begin with "_", only with a PREFIX that does.
    With --json each line is an object with the key's kind and the number of its siblings, or, with --delimiter, the
    prefix that stands for all keys below it.

    \b
    Examples:
      crdtsync ls plan/
      crdtsync ls --delimiter /
    """
    chosen = {name: option for name, option in options.items() if option}
    if where_meta is not None:
        chosen["where_meta"] = fields_of(where_meta, "--where-meta")
    with connect(settings) as attached:
        client = past(attached, at)
        if chosen:
            lines = _selected(client, prefix, chosen, as_json=settings.json)
        else:
            lines = _described(all_entries(client, prefix, values=False)) if settings.json else all_keys(client, prefix)
        for line in lines:
            output.line(line)


def _described(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        yield output.record({"key": entry.key, "kind": entry.kind, "siblings": len(entry.siblings)})


def _selected(client: Session, prefix: str, chosen: dict[str, Any], *, as_json: bool) -> Iterator[str]:
    """The lines for keys and for prefixes that stand for many, in one order."""
    if as_json:
        found = client.entries(prefix, values=False, **chosen)
        prefixes = [(name, output.record({"prefix": name})) for name in found.prefixes]
        lines = [*zip((entry.key for entry in found), _described(found), strict=True), *prefixes]
    else:
        keys = client.keys(prefix, **chosen)
        lines = [(key, key) for key in (*keys, *keys.prefixes)]
    return (line for _, line in sorted(lines, reverse="reverse" in chosen))
