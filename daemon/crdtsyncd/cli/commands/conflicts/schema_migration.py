"""``schema check`` and ``schema migrate``: what does not fit its schema, and a command that makes it fit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click
from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.commands.keys.update import filtered
from crdtsyncd.cli.connect import all_entries, connect
from crdtsyncd.cli.data.value_form import ValueForm
from crdtsyncd.cli.errors import ABSENT, CommandFailed, absent
from crdtsyncd.cli.params import TEXT
from crdtsyncd.cli.shared_options import prefix_argument
from crdtsyncd.cli.show import output
from crdtsyncd.cli.show.progress import Progress
from crdtsyncd.wording import counted

from crdtsync.errors import VersionMismatch
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from crdtsync.client import Entry, Schema, Session

VERSION = "schema_version"
"""In ``meta``: the version of the schema that a value was migrated to."""


class MisfitValue(NamedTuple):
    """One thing that does not fit."""

    key: str
    rule: str
    path: str
    why: str


@state_command("check")
@prefix_argument
def check(settings: Settings, prefix: str) -> None:
    """List what does not fit its schema.

    A host checks only what its own agents write. So what was there before a schema, or came from a host that did not
    know it, may not fit: each of it is a line with key, rule, place in the value and reason. Of a key with siblings all
    values are looked at. If there is any, the exit status is 1.

    \b
    Examples:
      crdtsync schema check
      crdtsync schema check plan/ --json
    """
    count = 0
    with connect(settings) as client, Progress("keys checked") as progress:
        schemas = DeclaredSchemas(client)
        for listed in all_entries(client, prefix, values=True):
            for misfit in schemas.misfits(client, listed):
                count += 1
                row = misfit._asdict()
                output.line(output.record(row) if settings.json else "\t".join(misfit))
            progress.advance()
    if count:
        told = f"{counted(count, 'value')} {'does' if count == 1 else 'do'} not fit the schema"
        raise CommandFailed(told, status=ABSENT, code="misfit")


@state_command("migrate")
@click.argument("pattern", type=TEXT)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.option("--dry-run", is_flag=True, help="Run CMD and check what it prints, but write nothing.")
def migrate(settings: Settings, pattern: str, command: tuple[str, ...], dry_run: bool) -> None:
    """Bring the values of a schema's keys to its version, by a command.

    PATTERN has a schema with a version. CMD finds the value of one key as JSON on its stdin, and prints the new one. It
    is written only if nothing else was written meanwhile, and carries the version in its meta. So a migration that was
    cut off goes on where it was when it is run again, and does nothing when all is done. Keys whose value was migrated,
    or was written since this version was declared and fits, are passed over, and so are those that are no registers,
    have siblings, or belong to a more specific pattern: the last line says how many. If CMD fails, or prints what does
    not fit, it ends there, with the key's name.

    \b
    Examples:
      crdtsync schema set 'plan/*' --version 2 --json-schema plan-2.json
      crdtsync schema migrate 'plan/*' --dry-run -- jq '.title = .name | del(.name)'
    """
    form, counts = ValueForm(as_string=False), {"migrated": 0, "current": 0, "left": 0}
    with connect(settings) as client:
        schemas = DeclaredSchemas(client)
        version, prefix = schemas.versioned(pattern)

        def migrated(entry: Entry) -> object:
            new = form.decode(filtered(command, form.encode(entry.value)), f"what {command[0]!r} printed")
            for misfit in schemas.of_value(entry.key, new):
                why = f"what {command[0]!r} printed does not fit: {misfit.path} {misfit.why}"
                raise CommandFailed(why, status=ABSENT, code="misfit")
            return new

        with Progress("keys looked at") as progress:
            for listed in all_entries(client, prefix, values=False):
                progress.advance()
                if schemas.pattern_of(listed.key) != pattern:
                    continue
                try:
                    counts[_bring_over(client, listed.key, version, schemas.follows, migrated, is_dry=dry_run)] += 1
                except CommandFailed as error:
                    what = error.message.removesuffix("; nothing was written")
                    stay = "" if dry_run else f"; {counts['migrated']:,} were migrated before, and stay"
                    raise CommandFailed(f"{listed.key}: {what}{stay}", status=error.status, code=error.code) from None
    done, current, left = counts.values()
    result = {**counts, "version": version, "dry_run": dry_run}
    output.result(
        settings,
        f"{done:,} {'would be ' if dry_run else ''}migrated to version {version}, {current:,} were there already, "
        f"{left:,} left as they are",
        result,
    )


def _bring_over(
    client: Session,
    key: str,
    version: int,
    follows: Callable[[Entry], bool],
    migrated: Callable[[Entry], object],
    *,
    is_dry: bool,
) -> Literal["migrated", "current", "left"]:
    """Migrate a key, and say what was done. If somebody writes it meanwhile, it is looked at anew."""
    while True:
        entry = client.entry(key)
        marked = None if entry is None else (entry.meta or {}).get(VERSION)
        if entry is None or (marked is not None and marked >= version):
            return "current"
        if entry.kind != "register" or entry.siblings:
            return "left"
        if marked is None and follows(entry):
            return "current"
        new = migrated(entry)
        if is_dry:
            return "migrated"
        try:
            _write(client, entry, new, version)
        except VersionMismatch:
            continue
        return "migrated"


def _write(client: Session, entry: Entry, value: object, version: int) -> None:
    ttl = None
    if entry.ttl is not None and entry.time is not None:
        ttl = max(0.001, entry.ttl - (datetime.now(UTC) - entry.time).total_seconds())
    meta = {**(entry.meta or {}), VERSION: version}
    client.set(entry.key, value, if_version=entry.version, meta=meta, confidence=entry.confidence, ttl=ttl)


class DeclaredSchemas:
    """All schemas, as they were at the beginning."""

    def __init__(self, client: Session) -> None:
        from crdtsync.core.crdt.schemas import DEFAULT, SchemaTable
        from crdtsync.wire.patterns import check_pattern

        self._declared: dict[str, Schema] = {schema.pattern: schema for schema in client.schemas()}
        self._patterns = {text: check_pattern(text) for text in self._declared}
        self._table = SchemaTable(
            {text: (pattern, DEFAULT._replace(pattern=text)) for text, pattern in self._patterns.items()}
        )

    def pattern_of(self, key: str) -> str:
        """The pattern whose schema applies to a key; empty: none does."""
        return self._table.find(key).pattern

    def version_of(self, key: str) -> int | None:
        """The version of the schema that applies to a key."""
        schema = self._declared.get(self.pattern_of(key))
        return None if schema is None else schema.version

    def versioned(self, pattern: str) -> tuple[int, str]:
        """The version of the schema of a pattern, and how its keys begin."""
        schema = self._declared.get(pattern)
        if schema is None or schema.version is None:
            raise absent(f"{pattern!r} has no schema with a version: crdtsync schema set {pattern!r} --version 2 …")
        declared = self._patterns[pattern]
        return schema.version, declared.text if declared.is_exact else declared.prefix

    def follows(self, entry: Entry) -> bool:
        """Whether a value was written since the version was declared first, and fits: commands say no version."""
        from crdtsync.core.crdt.schemas import since_ms

        schema = self._declared[self.pattern_of(entry.key)]
        since = since_ms(schema.fields)  # it was declared again, with other rules
        declared = schema.time if since is None else datetime.fromtimestamp(since / 1000, UTC)
        is_later = entry.time is not None and declared is not None and entry.time >= declared
        return is_later and not any(self.of_value(entry.key, entry.value))

    def misfits(self, client: Session, listed: Entry) -> Iterator[MisfitValue]:
        """The parts of a key that do not fit."""
        from crdtsyncd.cli.data.kinds import whole_entry

        schema = self._declared.get(self.pattern_of(listed.key))
        if schema is None or (schema.kind is None and schema.json_schema is None):
            return
        if schema.kind not in (None, listed.kind):
            yield MisfitValue(listed.key, "kind", "$", f"is a {listed.kind}, and is to be a {schema.kind}")
        if schema.json_schema is not None and listed.kind in _PARTS:
            entry = whole_entry(client, listed.key)
            for one in [] if entry is None else [entry, *entry.siblings]:
                for value in _PARTS[listed.kind](one):
                    yield from self.of_value(listed.key, value)

    def of_value(self, key: str, value: object) -> Iterator[MisfitValue]:
        """The same of one value."""
        from crdtsync.core.crdt.json_schema import JsonSchema, compiled, path_text
        from crdtsync.wire.codec import pack

        schema = self._declared[self.pattern_of(key)]
        ready = compiled(pack(schema.json_schema)) if schema.json_schema is not None else None
        if isinstance(ready, JsonSchema) and (misfit := ready.misfit(value)) is not None:
            yield MisfitValue(key, misfit.rule, path_text(misfit.path), misfit.why)


def _fields(entry: Entry) -> Iterable[object]:
    if entry.field is not None:
        return [{entry.field: entry.value}]
    return [{name: value} for name, value in entry.value.items()]


_PARTS: dict[str, Callable[[Entry], Iterable[object]]] = {
    "register": lambda entry: [entry.value],
    "log": lambda entry: entry.value,
    "set": lambda entry: entry.value,
    "map": _fields,
}
"""The values that a JSON Schema is held against, by kind."""
