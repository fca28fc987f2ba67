"""Why this node has of a key what it has, or lacks it: which change, from whom, over which peer, what it waits for.

Everything here is read from what the node knows anyway; only nodes that are reached over others are asked first how far
they are. It cannot know changes of a node that has not been heard of since, and the answer says so. It is for people,
and short enough for one screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from crdtsync.causality import Dot, hlc_ms
from crdtsync.core.agents.space_requests import find_replica
from crdtsync.core.crdt.entry import Entry
from crdtsync.core.diagnostics.explain_reasons import FINDERS
from crdtsync.core.diagnostics.explain_subject import Item, Subject, arrival, holders, reason
from crdtsync.core.diagnostics.remote_lag import knowing_far
from crdtsync.core.history.removal_reason import RemovalReason
from crdtsync.core.kinds.values import describe, inline_value, policy_of, siblings
from crdtsync.core.reads.key_history import rows_of_key
from crdtsync.core.reads.operations import Reader
from crdtsync.core.storage.rows import PastRow
from crdtsync.errors import InvalidRequest, UnknownSpace
from crdtsync.wire.limits import key_fault, shown
from crdtsync.wire.tokens import encode_dot

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.kinds.base import Sibling
    from crdtsync.core.node_parts import NodeParts

VALUES_SHOWN_MAX = 6
"""Concurrent values that are told one by one."""

REASONS_MAX = 12
"""In one explanation."""


def explain(node: NodeParts, agent: Agent, space: str, key: object) -> Item:
    """All that this node can say about a key. Reading it does not count as reading the key.

    - ``space, key, node``: what was asked for, and who answers.
    - ``state``: ``present``; ``conflict``; ``expired``, ``deleted``, ``trimmed``; ``never``: no write of it has come
      here; ``elsewhere``: other nodes hold the space; ``no_space``: nobody does.
    - ``summary``: the same as a sentence.
    - ``policy``: null, or ``{"name", "pattern", "why"}``.
    - ``values``, ``values_total``: the first 6 values, as siblings, with ``first``, ``writer``, ``seq``, ``expires``,
      ``came`` (``made_here``, ``change``, ``snapshot``, ``earlier``), ``over`` (a peer, or null), ``received``,
      ``held_by`` and ``not_held_by``.
    - ``removed``: null, or ``{"written": {"agent", "node", "time"}, "dot", "expires", "by"}`` of the value that was
      there last.
    - ``reasons``: what may be missing or wrong, the surest first, at most 12: ``{"code", "message", …}``.

    :raises InvalidRequest: not a key.
    """
    fault = key_fault(key)
    if fault is not None:
        raise InvalidRequest(f"the key {shown(key)} {fault}")
    assert isinstance(key, str)
    answer: Item = {"space": space, "key": key, "node": node.identity.name}
    empty: Item = {"values": [], "values_total": 0, "policy": None, "removed": None}
    try:
        replica = find_replica(node.dispatcher, space, agent)
    except UnknownSpace as error:
        record = node.spaces.record(space)
        is_elsewhere = record is not None and record.exists
        return {
            **answer,
            "state": "elsewhere" if is_elsewhere else "no_space",
            "summary": error.message,
            **empty,
            "reasons": [reason("space_elsewhere" if is_elsewhere else "no_space", _where_from(node, space))],
        }
    here = Subject(
        node,
        replica,
        Reader(replica, node.storage, node.now_ms, replica.node_of, node.authorizer.limit_of(agent, replica.name)),
        key,
    )
    state, summary, found = _state(here)
    reasons = [each for find in FINDERS for each in find(here)]
    return {**answer, "state": state, "summary": summary, **empty, **found, "reasons": reasons[:REASONS_MAX]}


def _where_from(node: NodeParts, space: str) -> str:
    record = node.spaces.record(space)
    if record is None or not record.exists:
        return "nobody has made it, as far as this node knows, or it was dropped: crdtsync space list shows all"
    return f"nothing of it ever comes to this node: ask on {node.fleet.where(record.nodes or ())}"


# -- what there is -------------------------------------------------------------------------------------------


def _state(here: Subject) -> tuple[str, str, Item]:
    """A word, a sentence and details about what this node holds of the key."""
    live = here.replica.entries.live(here.key, here.node.now_ms)
    groups = siblings(here.replica.entries, live)
    if groups:
        return _present(here, groups)
    held = here.replica.entries.held(here.key)
    last = next(rows_of_key(here.reader, here.key, None, is_lost=False), None)
    if held:
        entry = held[-1]
        summary = f"its time to live is over; {_whose(here, entry.dot, entry.agent)} wrote it"
        return "expired", summary, {"removed": _removed(here, PastRow(entry, None))}
    if last is None:
        trimmed = here.replica.past.floors(here.key)
        more = "; history does not reach back for ever, so it may have been deleted long ago" if trimmed else ""
        return "never", f"no write of this key has come to this node{more}", {}
    fate = RemovalReason(last.fate).name.lower() if last.fate is not None else "removed"
    state = fate if fate in ("expired", "deleted", "trimmed") else "deleted"
    if last.removal is None:
        summary = "it was removed on another node; by whom is not known here, for a snapshot brought that"
    else:
        by = _whose(here, last.removal.dot, last.removal.agent)
        summary = {
            "expired": f"its time to live was over, and {here.reader.node_of(last.removal.dot.writer)} removed it",
            "trimmed": f"{by} trimmed all of it",
        }.get(state, f"{by} deleted it")
    return state, summary, {"removed": _removed(here, last)}


def _present(here: Subject, groups: list[Sibling]) -> tuple[str, str, Item]:
    policy = policy_of(here.replica.entries, groups)
    schema = here.replica.schemas.of(here.key)
    found: Item = {
        "values": [_value(here, group, is_first=n == 0) for n, group in enumerate(groups[:VALUES_SHOWN_MAX])],
        "values_total": len(groups),
        "policy": {"name": policy.name, "pattern": schema.pattern or None, "why": _why(policy.name, schema.pattern)},
    }
    first = found["values"][0]
    if len(groups) == 1:
        how = _how(first)
        return "present", f"{first['agent']}@{first['node']} wrote it{how}", found
    winner = "none is chosen before somebody resolves it" if policy.is_manual else f"{first['dot']} is shown first"
    summary = f"{len(groups)} values that had not seen each other; by the read policy {policy.name} {winner}"
    return "conflict", summary, found


def _why(name: str, pattern: str) -> str:
    return f"the schema of {pattern} says so" if pattern else "the default" if name == "lww" else ""


def _how(value: Item) -> str:
    if value["over"] is None:
        return "" if value["came"] != "made_here" else ", here"
    return f", and it came over {value['over']}" + (" in a snapshot" if value["came"] == "snapshot" else "")


def _value(here: Subject, group: Sibling, *, is_first: bool) -> Item:
    """One of the values: the change that wrote it, how it came, and who else has it."""
    newest: Entry = group[-1]
    item = describe(here.replica, group, here.reader.node_of, inline_value)
    held_by, lacking = holders(here, newest.dot)
    return {
        **item,
        "first": is_first,
        "writer": newest.writer,
        "seq": newest.dot.seq,
        "expires": newest.expires_ms(),
        **arrival(here, newest.dot),
        "held_by": held_by,
        "not_held_by": lacking,
    }


def _removed(here: Subject, row: PastRow) -> Item:
    entry, removal = row.entry, row.removal
    item: Item = {
        "written": {"agent": entry.agent, "node": here.reader.node_of(entry.writer), "time": hlc_ms(entry.hlc)},
        "dot": encode_dot(entry.dot),
        "expires": entry.expires_ms(),
        "by": None,
    }
    if removal is not None:
        item["by"] = {
            "op": removal.operation,
            "agent": removal.agent,
            "node": here.reader.node_of(removal.dot.writer),
            "time": hlc_ms(removal.hlc),
            "dot": encode_dot(removal.dot),
            **arrival(here, removal.dot),
        }
    return item


def _whose(here: Subject, dot: Dot, agent: str) -> str:
    return f"{agent}@{here.reader.node_of(dot.writer)}"


HIDDEN = "there is an alarm about this space; who may not read all of the space is not told which keys it names"

Handler = Callable[[Any, int, Mapping[str, Any]], object]


def explain_request(node: NodeParts) -> Handler:
    """The handler of ``explain``."""

    def answer(agent: Agent, request: int, args: Mapping[str, Any]) -> object:
        space = args.get("space", agent.space)
        if type(space) is not str:
            raise InvalidRequest("space must be the name of a space")
        if not node.authorizer.sees(agent, space):  # as of everything else, so that nobody learns of spaces by asking
            raise node.authorizer.missing(agent, space)
        spaces = [space] if space in node.replicas else []
        return knowing_far(node, agent, request, spaces, lambda: told(agent, space, args))

    def told(agent: Agent, space: str, args: Mapping[str, Any]) -> Item:
        node.authorizer.check(agent, "explain", args)  # once more: it may have waited
        found = explain(node, agent, space, args.get("key"))
        if not node.authorizer.sees_all_of(agent, space):
            for each in found["reasons"]:  # an alarm may name keys that this agent is not to know of
                each["message"] = HIDDEN if "alarm" in each else each["message"]
        return found

    return answer
