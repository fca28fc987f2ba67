"""The catalogue of alarms: every alarm that there is, what it means and what to do.

For example, a disk went back in time, and a peer notices. The room that sees it raises the alarm by its name here::

    alarms.raise_once(FORK, space, "two different changes are both number 3")

``crdtsync doctor`` prints the alarm's ``remedy``, and the page ``docs/reference/alarms.md`` has a section made from
``means`` and ``do``, so nobody has to write the same words in a second place. To add an alarm: its entry here, the
line that raises the alarm, and a test. ``./dev docs --write`` then writes the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import cleandoc
from typing import Final

from crdtsync.named_tuple import NamedTuple

CRITICAL: Final = "critical"
"""Agents cannot write, or nodes do not agree: somebody must come now. An alert rule of its own names such an alarm."""
WARNING: Final = "warning"
"""Everything else; one alert rule covers all of them."""


class Alarm(NamedTuple):
    """An alarm of the catalogue: its texts, known before it is raised.

    :param code: for programs; also the title of its section on the page of alarms
    :param severity: :data:`CRITICAL` or :data:`WARNING`
    :param means: what has happened and what follows, in Markdown
    :param do: what to do, in Markdown
    :param remedy: what to do in one line, for a terminal
    :param by_name: where the message names one of several things: what to do, by these names
    """

    code: str
    severity: str
    means: str
    do: str
    remedy: str
    by_name: Mapping[str, str]


ALARMS: Final[dict[str, Alarm]] = {}
"""All alarms by code, in order of code."""


def alarm_of(code: str) -> Alarm:
    """The alarm of a code that came from another program, which may be newer and know more alarms."""
    remedy = "see docs/reference/alarms.md; a newer daemon may know alarms that this command does not"
    return ALARMS.get(code) or Alarm(code, WARNING, "", "", remedy, {})


def _alarm(
    code: str, severity: str, *, means: str, do: str = "", remedy: str, by_name: Mapping[str, str] | None = None
) -> Alarm:
    assert code not in ALARMS, code
    ALARMS[code] = Alarm(code, severity, cleandoc(means), cleandoc(do), remedy, by_name or {})
    return ALARMS[code]


ARCHIVED_WRITES = _alarm(
    "archived_writes",
    WARNING,
    means="""somebody dropped a space without having seen some of the changes held here. They are in the archive
    that the message names (`crdtsync space list --archives`), for seven days.""",
    do="""read them with `crdtsync --space NAME@EPOCH export`, and import what you want into the space if it was
    made again. The alarm ends with the archive.""",
    remedy="read them with --space NAME@EPOCH, and write again what is wanted of them",
)
BEHIND_LOG = _alarm(
    "behind_log",
    WARNING,
    means="a peer lacks changes that this node's log no longer holds, and the peer's version takes no snapshots.",
    do="upgrade that peer.",
    remedy="upgrade the peer that the message names, so that it takes a snapshot",
)
CERTIFICATE_EXPIRES = _alarm(
    "certificate_expires",
    WARNING,
    means="""this node's certificate expires within 30 days; from then on no member lets the node connect. A node
    renews its certificate [by itself](../how-to/cluster.md#keys) 90 days before. The renewal failed because no
    member was connected, or because [systemd keeps the key](../how-to/run.md#peers-port-and-node-key).""",
    do="""connect the node with a member that knows the others. If the certificate has already expired, existing
    connections go on, and no new one is made. Check the clock, then run `crdtsync cluster join INVITE` with an
    invite of any member: the node stays who it is and keeps its data.""",
    remedy="while connected, crdtsync cluster rotate-key; else crdtsync cluster join INVITE",
)
CHANGE_DAMAGED = _alarm(
    "change_damaged",
    WARNING,
    means="""the disk of this host holds something else in this node's log than what an agent wrote: a change does
    not have its hash, and neither the state nor history has the part that is spoilt. What agents read here stands
    elsewhere, and is whole unless [`value_damaged`](#value_damaged) says otherwise. This node asks its peers for the
    change. Until one gives it, a node that lacks it gets a snapshot from here instead, or the change from another node.
    A watch that would tell the change starts over, and a fork that goes back to it cannot be healed.""",
    do="""check the disk: if one change is spoilt, values may be, too. `crdtsync checkpoint verify` reads all that a
    checkpoint holds. The log line `change_damaged` names each change. The alarm ends when all of them have come from
    a peer, or are older than what the log keeps.""",
    remedy="check this host's disk; the change goes to no other node, and peers get a snapshot instead",
)
CHECKPOINT_LOST = _alarm(
    "checkpoint_lost",
    WARNING,
    means="""this node let go of a checkpoint that somebody wants to keep: since it was made, so much was overwritten
    and deleted that the past of the space takes over four times `history_bytes_max`. The checkpoint can no longer be
    read or restored here. The alarm is raised with the first such checkpoint of a space.""",
    do="""`crdtsync checkpoint list` on the other nodes shows where it is whole: restore it there, or export from it.
    Delete checkpoints that are no longer wanted, give others an end (`--keep`), or raise `history_bytes_max`. The alarm
    stays until a restart.""",
    remedy="restore it on a node where crdtsync checkpoint list shows it whole; delete old ones, or give them --keep",
)
CHECKPOINT_OVERDUE = _alarm(
    "checkpoint_overdue",
    WARNING,
    means="""a checkpoint that a policy of the space asks for was not made in time, or was not what it should be when
    it was read back. The message names the policy and says why.""",
    do="""`crdtsync checkpoint policy` shows the policies and when each was followed last. Delete checkpoints that are
    no longer wanted, or give the policy fewer to keep; if a value is damaged, see
    [`value_damaged`](#value_damaged). The alarm ends with the next checkpoint that is made and found whole.""",
    remedy="see crdtsync checkpoint policy; delete checkpoints that are no longer wanted, or change the policy",
)
CLOCK_AHEAD = _alarm(
    "clock_ahead",
    WARNING,
    means="""a peer's clock is more than 24 hours ahead of this node's. Its changes are applied, but this node does
    not take over their time; such values look newer than all others. The message names the peer. The alarm ends some
    seconds after the clock was set right.""",
    do="""set that node's clock (`sudo timedatectl set-ntp true`), then follow [these
    steps](../explanation/consistency.md#a-clock-that-is-over-24-hours-ahead): what it wrote meanwhile, and the
    daemon's own hybrid time, stay ahead.""",
    remedy="set the clock of the node that the message names: sudo timedatectl set-ntp true",
)
CONFLICT_UNRESOLVED = _alarm(
    "conflict_unresolved",
    WARNING,
    means="""a key has had several values for minutes, and no [resolver](../how-to/resolve-conflicts.md) for it has
    settled that.""",
    do="`crdtsync conflicts` shows the values, `crdtsync resolve` settles them.",
    remedy="look at it with crdtsync conflicts, and settle it with crdtsync resolve",
)
COPIED_NODE = _alarm(
    "copied_node",
    CRITICAL,
    means="""two daemons run as one node, from copies of one data directory, and keep replacing each other's
    connections.""",
    do="let the copy start afresh.",
    remedy="stop one of the two daemons that run from copies of one data directory, and remove its copy",
)
DISK_FILLING = _alarm(
    "disk_filling",
    WARNING,
    means="""the disk of the database has little left before writes are refused, or will be full within a day at the
    rate of the last hour.""",
    do="""free some space. `crdtsync status` shows what crdtsync takes: log and history have
    [caps](configuration.md#settings), and live state is what your agents keep. You may delete copies that a restore
    has moved aside (`replaced-…` in the data directory).""",
    remedy="free some space on that disk before writes are refused",
)
DIVERGENCE = _alarm(
    "divergence",
    CRITICAL,
    means="""a peer holds the same changes and another state or another text. If only a text differs, it may be no
    fault: for example, two hosts inserted at one place while a third compacted it. The nodes then agree within
    seconds. Else crdtsync or a disk has a fault. The two nodes mend it by themselves: each takes the other's
    snapshot, gets back what it has lost, and unites the texts. Entries that are known to have been removed stay
    removed. The log says `repair_started`, `repaired` and `divergence_over`; then the alarm ends.""",
    do="""nothing, if it names a text that was compacted and ends within a minute. Else report it, with the logs of
    both nodes.

    - If only texts differ and the log has `edit_skipped` or `text_torn`, an agent or a member has forged edits. One
      of the two nodes then writes the text anew (`text_rewritten`): with the words of both, or as two values in
      conflict if the text holds more than characters.
    - If the alarm stays, further attempts follow after 10 minutes, 20 minutes and so on. To go on at once, let one
      of the two start afresh.""",
    remedy="the nodes mend it by themselves; if it lasts, report it with the logs of both",
)
EDIT_SKIPPED = _alarm(
    "edit_skipped",
    WARNING,
    means="""an edit of a text could not be applied, because its author's program sent what no editor makes. Nothing
    else is affected; nodes that treated the edit differently even that out (see [divergence](#divergence)).""",
    do="""find key, agent and node in the log line `edit_skipped`, and correct that program. The alarm stays until a
    restart.""",
    remedy="see in the log which key and which agent it was: journalctl --unit crdtsyncd | grep edit_skipped",
)
FORK = _alarm(
    "fork",
    CRITICAL,
    means="""two different changes have one number. Mostly a node's disk went back in time (a VM snapshot, or a copy of
    the data directory) and the node went on writing. It may also be a member that writes under the numbers of others:
    the alarm names the author, and the peer over which the change came that is held here. Mostly the nodes heal it
    within a second ([how](../explanation/architecture.md#forks)); then this alarm ends, and one of them tells
    [fork_healed](#fork_healed). If it stays, this space no longer syncs between the nodes that disagree; nothing that
    is held is lost, and the log line `fork_not_healed` says why. `crdtsync restore` never causes this.""",
    do="""if it stays, upgrade the node whose version cannot heal it. Else let the node that was copied or rolled back
    start afresh. If no disk went back, find out what the peer runs that the alarm names, and
    [remove it](../how-to/cluster.md#removing); then let those nodes start afresh that hold the false change. Anything
    that only such a node held is in the directory that you moved away: start a daemon on it with `--data-dir` and
    without peers, and use `crdtsync export`.""",
    remedy="wait a moment; if it stays, a disk went back in time: see docs/reference/alarms.md, under fork",
)
FORK_HEALED = _alarm(
    "fork_healed",
    WARNING,
    means="""two different changes had one number, and this node holds both by now: the changes of one branch, with all
    that was written after them, have new names. Nothing is lost, and counters count what both counted. It is told since
    something was wrong: mostly a node's disk went back in time (a VM snapshot, a copy of the data directory), and it
    may also be a member that writes under the numbers of others. The alarm names the author.""",
    do="""look for values in conflict that the two branches left (`crdtsync conflicts`). If no disk went back, find out
    over which peer the false change came (the log line `alarm` of `fork` before names it), and
    [remove that member](../how-to/cluster.md#removing). The alarm stays until a restart.""",
    remedy="find out whose disk went back, or which member writes under the numbers of others",
)
JOURNAL_GIVEN_UP = _alarm(
    "journal_given_up",
    WARNING,
    means="""at its last start the daemon found an empty `crdtsync.db-commits` in place of a full one, and went on
    without. Writes acknowledged shortly before the daemon ended may be missing here. This node goes on as a new
    writer.""",
    do="""wait for peers to send back what they had fetched. For the rest, the former file is the only place: it can
    be put back into a copy of the data directory as it was then, with the daemon stopped. The alarm ends with the
    next start.""",
    remedy="wait until the peers have given back what they hold, and look for what they did not have",
)
LOOP_HELD = _alarm(
    "loop_held",
    WARNING,
    means="""for 20 seconds and more, turns of the daemon's event loop have taken over 50 ms of processor time each.
    Every agent of this host waits for such a turn. The message names what most of them were about, and for which
    agent.""",
    do="""have that agent write less at once, or fewer large values; the log line `slow_turn` has the details of each
    such turn ([slow turns](metrics.md#slow-turns)). If the message names no agent but work of the daemon's own, please
    report it. The alarm ends with the turns.""",
    remedy="have the agent that the message names write less at once; see slow_turn in the log",
)
MALFORMED_WRITE = _alarm(
    "malformed_write",
    WARNING,
    means="""a member sent a value, or something about one, that no agent can write: no msgpack, too deep, a time to
    live that is no number. The alarm names the member. Such a value reads as null and such an attribute as absent, on
    every node alike; all else in the change counts.""",
    do="find out what that member runs. The alarm ends with the next start of the daemon.",
    remedy="a member sends what no agent can write: find out what it runs",
)
NEAR_LIMIT = _alarm(
    "near_limit",
    WARNING,
    means="""something stands at 70 % of its [bound](metrics.md#bounds); the alarm ends below 60 %. The message
    names it:""",
    remedy="see docs/reference/alarms.md, under near_limit, for what to do about each",
    by_name={
        "agents, peer_connections": """raise `agents_max` or `peers_max`, or find who attaches so often: `crdtsync
        status` lists agents with their pid""",
        "agent_waits, agent_watches": """look at the agent that is named: it opens more and more waits or watches
        and never ends one""",
        "agent_backlog, agent_replies, watch_missed_keys": """an agent sends faster than it is served, or does not
        read; only that agent is slowed down. `crdtsync status` lists the agents""",
        "quota_requests, quota_bytes, quota_watches, quota_connections": """the agent that is named uses up its
        [quota](../how-to/rights.md#quotas): slow it down, or raise the quota with `crdtsync access quota`""",
        "access_rules, agents_with_keys": """write rules for patterns and groups, and revoke what nobody needs.
        Revoked ones go a day after every member has heard of them, so [remove](../how-to/cluster.md#removing)
        members that are away for good""",
        "early_changes, peer_credit": "a peer is slow or far behind; this goes down when the peer has caught up",
        "key_siblings": """many agents write the key that is named without having read all its values: `crdtsync
        conflicts`, then `crdtsync resolve`""",
        "open_files": "raise `LimitNOFILE=` in a drop-in: `sudo systemctl edit crdtsyncd`",
        "write_ahead_log": "something reads the database for a long time: a backup on a slow disk, or another program",
        "schemas": """the space that is named has nearly as many schemas as it may: use patterns that match more
        keys, and remove others (`crdtsync schema show`)""",
        "spaces": "dropped spaces count too: use a former name again",
        "peers_known, alarms, snapshots_given": "more nodes than crdtsync is made for: report it",
    },
)
NO_METRICS = _alarm(
    "no_metrics",
    WARNING,
    means="""the daemon cannot listen on `metrics_listen`, mostly because another program has the port. Prometheus
    gets nothing; all else goes on. The daemon tries again every 5 seconds.""",
    do="""see who has the port (`ss -ltnp`), or choose another and restart the daemon. Until then use `crdtsync
    metrics`.""",
    remedy="see who has the port: ss -ltnp; or choose another for metrics_listen, and restart the daemon",
)
NO_SPACE = _alarm(
    "no_space",
    CRITICAL,
    means="""the disk is full to its reserve, `free_bytes_min`. The daemon refuses agents' writes but `delete`, `purge`
    and `trim`, takes no changes of peers, and serves reads. At half of the reserve, it refuses these too, and deletes
    the file `ballast` in its data directory; the file comes back by itself.""",
    do="""free some space. Writes go on without a restart once there is a quarter more free than `free_bytes_min`. If
    crdtsync's own data fills the disk, purge what is not needed: what is only deleted stays in history. If purges are
    refused, too, restart the daemon with a smaller `free_bytes_min` for that time.""",
    remedy="free some space on that disk; writes go on by themselves",
)
NOT_ALL_MERGED = _alarm(
    "not_all_merged",
    WARNING,
    means="""this node joined its cluster and was to bring its data along (`join_data = "merge"`), but some is
    missing, mostly a space that the cluster does not have.""",
    do="""the message names a directory with a file for each such space. Run `crdtsync space create SPACE` and
    `crdtsync --space SPACE import --on-conflict sibling FILE`, then remove the directory. The alarm ends some
    seconds later.""",
    remedy="import the files that the message names, and remove them: see docs/reference/alarms.md",
)
NOT_JOINED = _alarm(
    "not_joined",
    WARNING,
    means="""the settings name an invite (`join`, or `--join`), and this node is not a member yet. The message says
    why.

    - *The inviting node cannot be reached.* The daemon keeps trying. If the invite has expired meanwhile, get a new
      one.
    - *This node holds data.* Run `crdtsync cluster join INVITE --merge` or `--archive`, or restart the daemon with
      one of these options.
    - *The invite has expired, was used, or is unknown.* Get a new one (`crdtsync cluster invite` on a member), and
      join by hand or put it into the settings and restart. The daemon does not try the old invite again.
    - *A member has that name already.* Give this node another `node_name` and restart it; or remove that member if
      it was this host before: then this node joins by itself.""",
    remedy="do what the reason says; a new invite comes from a member: crdtsync cluster invite",
)
NOT_LISTENING = _alarm(
    "not_listening",
    WARNING,
    means="""this node cannot listen on an address from `cluster init --listen` or `cluster join --listen`: another
    program has the port, or the interface is down. Other nodes cannot dial this one there; this node still dials
    them. The daemon tries again every 10 seconds.""",
    do="see who has the port (`ss -ltnp`), or listen elsewhere: `crdtsync cluster init --listen HOST:PORT`.",
    remedy="see who has the port: ss -ltnp; or listen elsewhere: crdtsync cluster init --listen HOST:PORT",
)
QUARANTINED = _alarm(
    "quarantined",
    WARNING,
    means="""acknowledged writes could not be brought into their tables, through a fault of crdtsync or a damaged
    row. Their bytes are kept in the table `quarantine` of the database; the message says why, and names the keys.
    Until the writes are taken in, this node shows those keys as they were before, and does not apply changes that
    depend on them. Everything else goes on, and other nodes that got the writes are not affected.""",
    do="""keep a copy of the data directory (`crdtsync backup` makes one), and report it with the log lines
    `quarantined` and `change_barred`. Each start tries again, so restart after an upgrade. If another node has the
    writes (`crdtsync get` shows them there) and you do not want to wait, let this node start afresh.""",
    remedy="keep a copy of the data directory and report it with the log: see docs/reference/alarms.md",
)
RECORD_UNDONE = _alarm(
    "record_undone",
    CRITICAL,
    means="""a member of the cluster took away the record that says that another node is a member, or was removed; the
    alarm names both. No correct daemon does that. Nothing follows from it: every node keeps what it was told of members
    and removals, and writes the record again.""",
    do="""find out what that member runs and who has its key. If it cannot be trusted,
    [remove it](../how-to/cluster.md#removing). The alarm ends with the next start of the daemon.""",
    remedy="a member acts against the cluster: find out what it runs, or remove it",
)
REMOVED = _alarm(
    "removed",
    WARNING,
    means="""this node was removed from its [cluster](../how-to/cluster.md#removing); the alarm says by whom. The
    node now serves the agents of its host alone.""",
    do="""to have the node back, let it start afresh and join. Anything that only this node held is in the directory
    that you moved away.""",
    remedy="if this host is to come back: stop its daemon, move its data directory away, and join it as a new node",
)
RESOLVER_FAILED = _alarm(
    "resolver_failed",
    WARNING,
    means="""a [resolver](../how-to/resolve-conflicts.md) raised an error or did not answer in time. Another
    resolver is asked, or the same one later.""",
    do="correct the resolver; the log line `resolver_failed` says why.",
    remedy="correct the resolver; the log says why: journalctl --unit crdtsyncd | grep resolver_failed",
)
RESOLVERS_DISAGREE = _alarm(
    "resolvers_disagree",
    WARNING,
    means="""resolvers keep answering each other's answers for one key: four rounds in a row, and no agent wrote in
    between. From the third round on, each host waits before it asks again: up to 8 seconds, then 16, 32, … up to an
    hour.""",
    do="""make them agree, or stop one of them; `crdtsync status` lists them. The alarm ends when the key has had no
    conflict for 30 seconds.""",
    remedy="make the resolvers of that key agree, or let one of them go",
)
SAME_NAME = _alarm(
    "same_name",
    WARNING,
    means="""another member has this node's name: two nodes joined at two members at once, or somebody changed a
    `node_name`. Nodes know each other by id, so everything works, but commands that take a name, such as `cluster
    remove`, cannot tell the two apart.""",
    do="change `node_name` of one and restart its daemon.",
    remedy="give one of the two another node_name, and restart its daemon",
)
SNAPSHOT_CONTRADICTED = _alarm(
    "snapshot_contradicted",
    CRITICAL,
    means="""a peer sent a state that others contradict: it leaves out what they still hold, or names changes that
    their authors never made. None of it was merged, and nothing is lost. The alarm names the peer.""",
    do="""find out what that peer runs. If it cannot be trusted, [remove it](../how-to/cluster.md#removing). If the
    author that denies the changes runs in a virtual machine that was put back to a snapshot with its memory, the
    author is wrong: let that one start afresh. The alarm ends with the first state that nobody contradicts.""",
    remedy="find out what the named peer runs, or remove it; another peer's state is taken meanwhile",
)
SNAPSHOT_DOUBTED = _alarm(
    "snapshot_doubted",
    CRITICAL,
    means="""this node is behind, and the state that a peer sent takes away much of what this node and another one have,
    by changes that the other one does not know. Either both are behind, or the peer made it up. It is merged after ten
    minutes, unless the peer is gone by then.""",
    do="""if many values were removed on purpose while these nodes were away, do nothing. Otherwise
    [remove](../how-to/cluster.md#removing) the peer that the alarm names, before the ten minutes are over.""",
    remedy="if nobody removed many values on purpose, remove the named peer from the cluster within ten minutes",
)
SNAPSHOT_REFUSED = _alarm(
    "snapshot_refused",
    WARNING,
    means="""the state that a peer sent did not hold together, and none of it was merged. Another peer is asked, or
    the same one after a minute.""",
    do="""if the alarm stays, run both nodes in one version. It ends with the first snapshot that could be taken.""",
    remedy="upgrade the older of the two nodes; if both are of one version, report it with both logs",
)
TAKEN_AWAY = _alarm(
    "taken_away",
    WARNING,
    means="""this node was behind and took a peer's state, which took away much of what this node held: over 1,000
    values, or half. No other node confirmed that. So it is after a clean-up in a cluster of two; it is
    also what a faulty or hostile peer would do.""",
    do="""if nobody has removed those values on purpose, `crdtsync bring-back` writes them anew; it has a week for that.
    `crdtsync history PREFIX` shows them. The alarm ends with the next start of the daemon.""",
    remedy="if nobody removed those values on purpose: crdtsync bring-back writes them anew",
)
TEXT_CONTESTED = _alarm(
    "text_contested",
    WARNING,
    means="""so many edits of one text compete for the same places, or have left it in so many pieces, that a host would
    take long to load it: mostly a program forged them. What agents of this host would insert into it is refused; reads
    and all other keys go on. If it came in a snapshot, it is not taken in, and cannot be read on this host.""",
    do="""see in the alarm which text it is, and who wrote it last, or which host sent it. Compact it on a host that can
    read it: `crdtsync text KEY --compact`; or delete it. The alarm stays until a restart.""",
    remedy="compact the text that the alarm names: crdtsync text KEY --compact",
)
TTL_LENGTHENED = _alarm(
    "ttl_lengthened",
    WARNING,
    means="""a value with a `ttl` was written on this host while its hybrid time was over a second ahead of its own
    clock, since another host's clock is ahead. The value lives that much longer than it should.""",
    do="""set the clock of the host that is ahead (`sudo timedatectl set-ntp true`); `crdtsync peers` shows whose it
    is. The alarm ends with the next such write once the times agree.""",
    remedy="set the clock of the host that is ahead: sudo timedatectl set-ntp true",
)
VALUE_DAMAGED = _alarm(
    "value_damaged",
    WARNING,
    means="""the disk of this host holds something else than what an agent wrote: the value of a key does not have its
    hash. This node's log does not have it: that holds the newest changes once more, but for values over 64 KiB. Or a
    peer's disk had spoilt it, and this node has the key by a snapshot of that peer. Peers are asked for the value.
    Until it has come, whoever reads that key here gets the error `damaged_value`; all other keys are served.""",
    do="""check the disk: if one value is spoilt, others may be. The alarm ends when all that is known to be spoilt has
    come from a peer and is in its place. If it stays, no node that this one is connected to has the value: the log line
    `value_damaged` names the key; write it again, or restore this host from a [backup](../how-to/run.md#back-up).""",
    remedy="check this host's disk; if the alarm stays, no peer has the value: write it again",
)
VALUES_CROWDED_OUT = _alarm(
    "values_crowded_out",
    WARNING,
    means="""a key (or a field of a map) had 16 values that nobody had settled, and an agent wrote one more. The
    write took the lowest-ranked ones along. History keeps them as `lost`. The alarm is raised on the host of that
    agent, with the first such key of a space.""",
    do="""`crdtsync history KEY --lost` shows what went; the log line `values_crowded_out` names each key, agent and
    number. Then have the agents that write the key read all its values first (`entry`, or `update` with
    `siblings=True`), or run a [resolver](../how-to/resolve-conflicts.md). The alarm stays until a restart.""",
    remedy="see crdtsync history KEY --lost, and have its writers read all values first, or run a resolver",
)
