"""How full everything is that has a bound: for the status, the metrics, and an alarm before it is reached.

Three kinds of bounds behave differently. At a ``limit`` something is refused. A ``buffer`` at its bound slows somebody
down, which is what it is for; only one that stays full is worth a word. A ``cap`` is kept by letting the oldest go, so
it is full most of the time and nobody is alarmed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from crdtsync.core.access import record_cleanup
from crdtsync.core.access.records import ACCESS, AGENTS
from crdtsync.core.agents.watch_requests import WATCHES_PER_AGENT_MAX
from crdtsync.core.alarm_catalogue import NEAR_LIMIT
from crdtsync.core.alarms import Alarms
from crdtsync.core.cluster import archives, spaces
from crdtsync.core.crdt import causal_gate
from crdtsync.core.peers import connections
from crdtsync.core.replica.replica import Replica
from crdtsync.core.replica.schemas import declare
from crdtsync.core.sync import change_feed, snapshot_server
from crdtsync.core.text import document_cache
from crdtsync.core.waiting.wait_queue import Waits
from crdtsync.core.watch import change_watch as watches
from crdtsync.named_tuple import NamedTuple
from crdtsync.wire.kinds import Kind
from crdtsync.wire.limits import KEY_SIBLINGS_MAX

if TYPE_CHECKING:
    from crdtsync.core.node_parts import NodeParts

LIMIT, BUFFER, CAP = "limit", "buffer", "cap"
ALARM_PERCENT = 70
CLEAR_PERCENT = 60
"""An alarm ends below this, so that a use that wavers around 70 % is one alarm and not many."""
BUFFER_LOOKS_MIN = 3
"""So many looks in a row find a buffer full before that is an alarm."""
KEYS_LOOKED_AT_MAX = 10_000
"""With more keys of several entries than that, the number of siblings is not looked at: it would take too long."""


class Usage(NamedTuple):
    """``used`` of ``bound``; ``scope`` says whose: of many, the fullest one's."""

    name: str
    used: int
    bound: int
    unit: str
    kind: str
    scope: str = ""

    @property
    def percent(self) -> float:
        """How full it is."""
        return 100 * self.used / self.bound if self.bound else 0.0

    def described(self) -> dict[str, Any]:
        """As the status shows it."""
        return {**self._asdict(), "percent": round(self.percent, 1)}


Stats = Mapping[int, Mapping[str, int]]
"""Figures of the log and the history of spaces, by their number."""


def usages(node: NodeParts, crowds: Crowds, stats: Stats) -> list[Usage]:
    """How full all that is, now, which the core keeps in bounds; in order of the names. It looks at every space."""
    return sorted([*pressing(node, crowds), *_capped(node, stats)])


def pressing(node: NodeParts, crowds: Crowds) -> list[Usage]:
    """The same of what alarms may be raised for: no caps. This is asked every few seconds, and reads nothing from disk.

    With 10,000 spaces a turn with it took 340 ms when it looked at everything, and takes 17 (measured).
    """
    of_agents = (*_of_agents(node), *_of_quotas(node), *_of_records(node))
    return sorted([*of_agents, *_of_peers(node), *_of_spaces(node, crowds), _alarms(node)])


def fullest(name: str, found: Iterable[tuple[int, str]], bound: int, unit: str, kind: str) -> Usage:
    """The fullest of many of one name."""
    used, scope = max(found, default=(0, ""))
    return Usage(name, used, bound, unit, kind, scope if used else "")


def _of_agents(node: NodeParts) -> Iterator[Usage]:
    dispatcher, agents = node.dispatcher, node.dispatcher.agents
    waiting = [(dispatcher.waits.count(conn), agent.name) for conn, agent in agents.items()]
    yield fullest("agent_waits", waiting, Waits.PER_AGENT_MAX, "requests", LIMIT)
    watching = [(dispatcher.watches.count(conn), agent.name) for conn, agent in agents.items()]
    yield fullest("agent_watches", watching, WATCHES_PER_AGENT_MAX, "watches", LIMIT)
    missed = [(count, agents[conn].name) for conn, count in dispatcher.watches.missed() if conn in agents]
    yield fullest("watch_missed_keys", missed, watches.DIRTY_KEYS_MAX, "keys", BUFFER)


def _of_records(node: NodeParts) -> Iterator[Usage]:
    """The use of the cluster's records that are refused at their bound."""
    cluster = node.cluster
    yield Usage("access_rules", len(cluster.names(ACCESS)), record_cleanup.RULES_MAX, "rules", LIMIT)
    yield Usage("agents_with_keys", len(cluster.names(AGENTS)), record_cleanup.AGENTS_MAX, "agents", LIMIT)


def _of_quotas(node: NodeParts) -> Iterator[Usage]:
    """For each quota, the use of the agent which has used most of its own."""
    accounts = node.authorizer.accounts.attached()
    watching = Counter[str]()
    for conn, agent in node.dispatcher.agents.items():
        if agent.account is not None:
            watching[agent.account.who] += node.dispatcher.watches.count(conn) + len(node.resolvers.of_conn(conn))
    rates = [(each.who, *each.used(node.now_s)) for each in accounts]
    asked = _most_of_its_own((who, *requests) for who, requests, _ in rates)
    yield Usage("quota_requests", asked.used, asked.bound, "requests", BUFFER)._replace(scope=asked.scope)
    written = _most_of_its_own((who, *size) for who, _, size in rates)
    yield Usage("quota_bytes", written.used, written.bound, "bytes", BUFFER)._replace(scope=written.scope)
    watches = _most_of_its_own((each.who, watching[each.who], each.limits.watches) for each in accounts)
    yield Usage("quota_watches", watches.used, watches.bound, "watches", LIMIT)._replace(scope=watches.scope)
    attached = _most_of_its_own((each.who, each.connections, each.limits.connections) for each in accounts)
    yield Usage("quota_connections", attached.used, attached.bound, "connections", LIMIT)._replace(scope=attached.scope)


class _Share(NamedTuple):
    used: int = 0
    bound: int = 0
    scope: str = ""


def _most_of_its_own(found: Iterable[tuple[str, int, int]]) -> _Share:
    """The one that has used the largest part of what it may: who, used, bound."""
    return max((_Share(used, bound, who) for who, used, bound in found if used), key=_part, default=_Share())


def _part(share: _Share) -> float:
    return share.used / max(share.bound, 1)


def _of_peers(node: NodeParts) -> Iterator[Usage]:
    names = [(link, link.hello.name if link.hello is not None else link.url) for link in node.sync.links.values()]
    unacknowledged = [(link.sent_bytes - link.acked_bytes, name) for link, name in names]
    yield fullest("peer_credit", unacknowledged, change_feed.CREDIT_BYTES_MAX, "bytes", BUFFER)
    yield Usage("peers_known", len(node.sync.peers), connections.PEERS_KNOWN_MAX, "peers", LIMIT)
    given = node.sync.snapshot_server.open_count()
    yield Usage("snapshots_given", given, snapshot_server.SNAPSHOTS_OPEN_MAX, "snapshots", BUFFER)


def _awake(node: NodeParts) -> list[tuple[str, Replica]]:
    return [(name, replica) for name, replica in node.replicas.items() if replica.asleep is None]


def _of_spaces(node: NodeParts, crowds: Crowds) -> Iterator[Usage]:
    awake = _awake(node)
    early = ((size_bytes, name) for name, replica in awake if (size_bytes := replica.gate.size_bytes))
    yield fullest("early_changes", early, causal_gate.BYTES_MAX, "bytes", BUFFER)
    plural = (
        (name, replica)
        for name, replica in node.replicas.items()
        if (replica.entries.keys_with_several if replica.asleep is None else replica.asleep.siblings)
    )
    schemas = (
        (len(replica.schemas) if replica.asleep is None else replica.asleep.schemas, name)
        for name, replica in node.replicas.items()
    )
    yield fullest("schemas", schemas, declare.SCHEMAS_MAX, "schemas", LIMIT)
    yield Usage("spaces", node.spaces.named_count(), spaces.SPACES_MAX, "spaces", LIMIT)
    yield fullest("key_siblings", crowds.look(plural), KEY_SIBLINGS_MAX, "siblings", LIMIT)


def _capped(node: NodeParts, stats: Stats) -> Iterator[Usage]:
    """The use of stores that keep their bound by letting the oldest go."""
    replicas, caps = node.replicas.items(), node.retention.caps
    logs = [(name, stats[replica.id]) for name, replica in replicas if replica.id in stats]
    yield fullest("log", ((stat["log_bytes"], name) for name, stat in logs), caps.log_bytes_max, "bytes", CAP)
    kept = ((stat["history_bytes"], name) for name, stat in logs)
    yield fullest("history", kept, caps.history_bytes_max, "bytes", CAP)
    kept_rows = node.spaces.archives.rows.values()
    yield Usage("archives", len(kept_rows), archives.ARCHIVES_MAX, "archives", CAP)
    yield Usage("archive_bytes", sum(row.size_bytes for row in kept_rows), archives.ARCHIVE_BYTES_MAX, "bytes", CAP)
    awake = _awake(node)
    opened = ((len(replica.documents), name) for name, replica in awake)
    yield fullest("open_documents", opened, document_cache.OPEN_DOCUMENTS_MAX, "documents", CAP)
    loaded = ((replica.documents.memory_bytes, name) for name, replica in awake)
    yield fullest("document_memory", loaded, document_cache.OPEN_BYTES_MAX, "bytes", CAP)
    yield Usage("value_cache", node.value_cache.size_bytes, node.value_cache.bytes_max, "bytes", CAP)


class Crowds:
    """The most siblings that a key of each space has; looked at anew where something has happened since."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Replica, int, tuple[int, str]]] = {}

    def look(self, plural: Iterable[tuple[str, Replica]]) -> list[tuple[int, str]]:
        """For each of these spaces: the most siblings of a key, and that key."""
        before, self._found = self._found, {}
        for name, replica in plural:
            known = before.get(name)
            if known is None or known[0] is not replica or known[1] != replica.position:
                known = (replica, replica.position, most_siblings(replica))
            self._found[name] = known
        return [found for _, _, found in self._found.values()]


def most_siblings(replica: Replica) -> tuple[int, str]:
    """The register with the most concurrent values, if there are not too many to look at."""
    entries = replica.entries
    if len(entries.keys_with_several) > KEYS_LOOKED_AT_MAX:
        return 0, ""
    held = (
        (len(entries.held(key)), key)
        for key in entries.keys_with_several
        if entries.held(key)[-1].kind == Kind.REGISTER
    )
    return max(held, default=(0, ""))


def _alarms(node: NodeParts) -> Usage:
    return Usage("alarms", len(node.alarms.raised()), Alarms.ALARMS_MAX, "alarms", LIMIT)


class UsageAlarms:
    """Raises the alarm ``near_limit`` for what is nearly full, and clears it again."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._looks: dict[str, int] = {}
        self._raised: set[str] = set()

    def look(self, found: Iterable[Usage]) -> None:
        """Judge what there is now. To be called every few seconds."""
        for usage in found:
            if usage.kind == CAP:
                continue
            threshold = CLEAR_PERCENT if usage.name in self._raised else ALARM_PERCENT
            looks = self._looks[usage.name] = self._looks.get(usage.name, 0) + 1 if usage.percent >= threshold else 0
            if not looks and usage.name in self._raised:
                self._raised.discard(usage.name)
                self._alarms.clear(NEAR_LIMIT, usage.name)
            elif looks >= (BUFFER_LOOKS_MIN if usage.kind == BUFFER else 1) and usage.name not in self._raised:
                self._raised.add(usage.name)
                self._alarms.raise_once(NEAR_LIMIT, usage.name, _sentence(usage))


def _sentence(usage: Usage) -> str:
    whose = f" ({usage.scope})" if usage.scope else ""
    what_follows = "what comes beyond is refused" if usage.kind == LIMIT else "it slows down whoever feeds it"
    return (
        f"{usage.name}{whose} stands at {usage.used:,} of {usage.bound:,} {usage.unit}: at the bound {what_follows}; "
        "docs/reference/alarms.md says what to do, under near_limit"
    )
