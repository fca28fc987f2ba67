"""``set``, ``del`` and ``ls``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from crdtsyncd.cli.command import Settings, pass_settings, state_command
from crdtsyncd.cli.connect import all_entries, all_keys, connect
from crdtsyncd.cli.errors import absent
from crdtsyncd.cli.params import CONFIDENCE, KEY, TEXT, TTL, WriteConcernValue
from crdtsyncd.cli.shared_options import (
    concern_option,
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
    from collections.abc import Iterator

    from crdtsync.client import Client

_BATCH_KEYS = 1000


@state_command("set")
@key_argument
@value_argument
@string_option
@click.option("--ttl", metavar="DURATION", type=TTL, help="Forget the value after this time, such as 30s or 7d.")
@if_version_option
@if_absent_option
@click.option("--seen", metavar="V", type=TEXT, help="Replace exactly what this version covers, siblings too.")
@click.option("--confidence", metavar="F", type=CONFIDENCE, help="How sure the author is, from 0 to 1.")
@concern_option
@pass_settings
def set_(settings: Settings, /, key: str, value: str, as_string: bool, **options: object) -> None:
    """Write a value, and print the token of the write.

    VALUE is JSON; "-" reads it from stdin. Without --seen or --if-version the value is replaced whatever it is.
    If a condition is false, nothing is written and the exit status is 1.

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


def _refuse_two(chosen: dict[str, object], *names: str) -> None:
    given = [f"--{name.replace('_', '-')}" for name in names if name in chosen]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other: leave one of them out.")


@state_command("del")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True, type=KEY)
@if_version_option
@concern_option
@pass_settings
def delete(settings: Settings, keys: tuple[str, ...], if_version: str | None, w: WriteConcernValue | None) -> None:
    """Delete keys, and print the token of the deletion.

    Keys of any kind go, with their siblings; up to 1,000 keys all at once. If a key does not exist, the others are
    deleted and the exit status is 1.

    \b
    Example:
      crdtsync del plan/goal plan/steps
    """
    once = list(dict.fromkeys(keys))
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
@pass_settings
def ls(settings: Settings, prefix: str) -> None:
    """Print the keys that begin with a prefix.

    All keys, without PREFIX; in order, one a line. With --json each line is an object with the key's kind and the
    number of its siblings.

    \b
    Example:
      crdtsync ls plan/
    """
    with connect(settings) as client:
        for line in _described(client, prefix) if settings.json else all_keys(client, prefix):
            output.line(line)


def _described(client: Client, prefix: str) -> Iterator[str]:
    for entry in all_entries(client, prefix, values=False):
        yield output.record({"key": entry.key, "kind": entry.kind, "siblings": len(entry.siblings)})
