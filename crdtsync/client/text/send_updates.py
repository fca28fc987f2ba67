"""The plans of an editor: what it asks of the daemon, and how it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crdtsync.client.session.request_context import Write
from crdtsync.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crdtsync.client.protocol.steps import Exchange
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


def fetch(context: Context, key: str, document: str | None, state: bytes) -> Exchange[Fetched]:
    """The text's document, and what a replica of ``document`` in ``state`` lacks, or the whole of another one."""
    arguments: Arguments = {"key": key}
    if document is not None:
        arguments |= {"document": document, "state": state}

    def learn(reply: Any) -> Fetched:
        if reply is None:
            return Fetched(None, None, None, context.point)
        return Fetched(reply["document"], reply["update"], reply["version"], reply.get("token", context.point))

    return context.read_call("text_read", arguments, None, NO_LIMIT_S, learn)


def send(context: Context, key: str, document: str | None, parts: Sequence[Segment]) -> Write[tuple[str, str]]:
    """Updates as one change; its token, and the document that took them."""
    edits: list[Arguments] = [{"key": key, "document": document, "update": part.update} for part in parts]

    def learn(reply: Any, token: str, _: bool) -> tuple[str, str]:
        result = reply["results"][-1] if len(edits) > 1 else reply
        context.memory.wrote(key, result["version"])
        return token, result["document"]

    if len(parts) == 1:
        return context.send(Write(context, "text_apply", edits[0], learn), None, NO_LIMIT_S)
    ops = [("text_apply", edit) for edit in edits]
    return context.send(Write(context, "batch", {"ops": ops}, learn), None, NO_LIMIT_S)
