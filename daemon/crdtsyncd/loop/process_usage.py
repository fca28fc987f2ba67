"""How full that is which the process itself keeps in bounds: connections, buffers, open files, the write-ahead log."""

from __future__ import annotations

import resource
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from crdtsyncd.loop.agent_socket import BACKLOG_REQUESTS_MAX, WRITE_BUFFER_BYTES_MAX, AgentConnection
from crdtsyncd.storage.database import Store
from crdtsyncd.storage.retry_replies import OUTCOMES_BYTES_MAX, OUTCOMES_MAX
from crdtsyncd.storage.wal_checkpoint import WAL_BYTES_MAX

from crdtsync.core.diagnostics.usage import BUFFER, CAP, LIMIT, Usage, fullest

if TYPE_CHECKING:
    from crdtsyncd.config.model import Config


def shell_usages(config: Config, store: Store, agents: Iterable[AgentConnection], peers: int) -> tuple[Usage, ...]:
    """All of it, now; costs some µs, and a few for each agent."""
    attached = list(agents)
    outcomes, outcome_bytes = store.outcome_stats()
    backlogs = [(each.backlog_requests, "") for each in attached]
    unread = [(each.unread_bytes, "") for each in attached]
    return (
        Usage("agents", len(attached), config.agents_max, "agents", LIMIT),
        fullest("agent_backlog", backlogs, BACKLOG_REQUESTS_MAX, "requests", BUFFER),
        fullest("agent_replies", unread, WRITE_BUFFER_BYTES_MAX, "bytes", BUFFER),
        Usage("open_files", _open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0], "files", LIMIT),
        Usage("peer_connections", peers, config.peers_max, "connections", LIMIT),
        Usage("remembered_replies", outcomes, OUTCOMES_MAX, "replies", CAP),
        Usage("remembered_reply_bytes", outcome_bytes, OUTCOMES_BYTES_MAX, "bytes", CAP),
        Usage("write_ahead_log", store.wal_bytes(), WAL_BYTES_MAX, "bytes", BUFFER),
    )  # fmt: skip


def _open_files() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return 0
