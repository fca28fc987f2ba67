"""The plans of an editor: what it asks of the daemon, and how it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crdtsync.client.protocol.steps import Plan
    from crdtsync.client.session.request_context import Arguments, Context
    from crdtsync.client.text.update_queue import Segment

NO_LIMIT_S = float("inf")


class Fetched(NamedTuple):
    """What the daemon has of a text; all None: there is none."""

    document: str | None
    update: bytes | None
    version: str | None
    token: str | None
    """Of that moment."""


def fetch(context: Context, key: str, document: str | None, state: bytes) -> Plan[Fetched]:
    """The text's document, and what a replica of ``document`` in ``state`` lacks, or the whole of another one."""
    arguments: Arguments = {"key": key}
    if document is not None:
        arguments |= {"document": document, "state": state}
    reply: Any = yield context.read_call("text_read", arguments, None, NO_LIMIT_S)
    if reply is None:
        return Fetched(None, None, None, context.point)
    return Fetched(reply["document"], reply["update"], reply["version"], reply.get("token", context.point))


def send(context: Context, key: str, document: str | None, parts: Sequence[Segment]) -> Plan[tuple[str, str]]:
    """Updates as one change; its token, and the document that took them."""
    edits: list[Arguments] = [{"key": key, "document": document, "update": part.update} for part in parts]
    if len(edits) == 1:
        reply = yield from context.write("text_apply", edits[0], None, NO_LIMIT_S)
        result = reply
    else:
        ops = [["text_apply", edit] for edit in edits]
        reply = yield from context.write("batch", {"ops": ops}, None, NO_LIMIT_S)
        result = reply["results"][-1]
    context.memory.wrote(key, result["version"])
    return reply["token"], result["document"]
