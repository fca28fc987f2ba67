"""``batch``: many operations as one change."""

from __future__ import annotations

from typing import IO

from crdtsyncd.cli.command import Settings, state_command
from crdtsyncd.cli.connect import connect
from crdtsyncd.cli.data import ndjson
from crdtsyncd.cli.data.batch_lines import operation_of
from crdtsyncd.cli.errors import refused_value
from crdtsyncd.cli.params import WriteConcernValue
from crdtsyncd.cli.shared_options import concern_option, file_argument
from crdtsyncd.cli.show import output

from crdtsync.errors import Refused


@state_command("batch")
@file_argument("file")
@concern_option
def batch(settings: Settings, file: IO[bytes], w: WriteConcernValue | None) -> None:
    """Carry out many operations as one, all or nothing.

    Each line of FILE is a JSON object, "-" reads from stdin; the token is printed. They become one change,
    visible everywhere at once; when one of them is refused, none is done. At most 1,000 operations and 4 MiB.

    \b
      {"op": "set", "key": K, "value": V}     also: ttl, confidence, meta, seen
      {"op": "append", "key": K, "value": V}  also: ttl, confidence, meta
      {"op": "incr", "key": K, "n": N}
      {"op": "add", "key": K, "value": V}
      {"op": "merge", "key": K, "fields": {}} also: seen, if_field_absent
      {"op": "touch", "key": K, "ttl": D}
      {"op": "del", "key": K}                 also: seen
      {"op": "trim", "key": K, "keep": N}
      {"op": "remove", "key": K, "dot": D}
      {"op": "reset", "key": K}
      {"op": "discard", "key": K, "value": V} also: seen
      {"op": "drop", "key": K, "field": F}    also: seen
      {"op": "resolve", "key": K, "take": D}  or: value, merge; also: seen

    Each takes if_version, and the first five if_absent. When a condition is false, or anything else is refused, the
    line is named, nothing is done, and with --json the error has the operation's number as index, counted from 0.

    \b
    Example:
      echo '{"op": "set", "key": "a", "value": 1}' | crdtsync batch -
    """
    name = ndjson.name_of(file)
    operations = [operation_of(line) for line in ndjson.lines(file, name)]
    if not operations:
        raise refused_value(f"{name} holds no operation")
    with connect(settings) as client:
        try:
            with client.batch(w=w) as writes:
                for operation in operations:
                    getattr(writes, operation.method)(**operation.arguments)
        except Refused as error:
            if error.index is not None and error.index < len(operations):
                error.message = f"{operations[error.index].place}: {error.message}"
            raise
        output.result(settings, writes.token or "", {"token": writes.token, "operations": len(operations)})
