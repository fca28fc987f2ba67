"""Access control: every request passes here, once, before anything looks at what it is about.

The authorizer works out an agent's rights in a space at its first request there, and remembers them with the agent.
When rules, agents or quotas change, here or on another node, it drops what it remembered, and ends whatever runs and is
no longer allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from crdtsync.core.access.quotas import DEFAULT_LIMITS, Accounts, Limits
from crdtsync.core.access.records import AGENTS, QUOTA_NAMES, QUOTAS
from crdtsync.core.access.requirements import NEEDED, Needed, On, Right
from crdtsync.core.access.rules import ANYONE, EVERYTHING, NO_GRANT, SOCKET, Grant, Rulebook
from crdtsync.core.cluster.records import Cluster
from crdtsync.core.cluster.space_records import DEFAULT_SPACE
from crdtsync.core.identity import OWN_AGENT
from crdtsync.errors import CrdtSyncError, NotAllowed, QuotaExceeded, UnknownSpace
from crdtsync.wire.agent_keys import decode_agent_key, hash_of_secret
from crdtsync.wire.limits import CLUSTER_SPACE, archive_of, is_name, is_space_name, shown
from crdtsync.wire.patterns import check_pattern
from crdtsync.wire.tokens import decode_token

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.cluster.admission import Admission
    from crdtsync.core.node_context import NodeContext

Arguments = Mapping[str, Any]

RULES_SHOWN_MAX = 5
SPACES_SHOWN_MAX = 10
NOTED_MAX = 1000
NOTE_INTERVAL_S = 60.0
GRANTS_MAX = 10_000
"""Agents in spaces of which it is remembered what they may do."""
UNKNOWN_REQUEST = Needed(Right.HOST, On.HOST)
"""The need of a request that nobody has thought of."""


class Authorizer:
    """See the module's description. ``limits``: the quotas of an agent of which the cluster says nothing else."""

    def __init__(self, node: NodeContext, cluster: Cluster, fleet: Admission, limits: Limits = DEFAULT_LIMITS) -> None:
        self._node = node
        self._cluster = cluster
        self._fleet = fleet
        self.default_limits = limits
        self.rules = Rulebook(cluster)
        self.accounts = Accounts(self.limits)
        self._taken: set[str] = set()
        self._noted: dict[tuple[str, str], float] = {}
        self._grants: dict[tuple[tuple[str, ...], str], Grant] = {}
        self._checks: Mapping[On, Callable[[Agent, Right, str, Arguments], None]] = {
            On.NOTHING: lambda _agent, _right, _name, _args: None,
            On.KEY: self._check_key,
            On.KEYS: self._check_keys,
            On.KEY_OR_PREFIX: self._check_key_or_prefix,
            On.PREFIX: self._check_prefix,
            On.PATTERN: self._check_pattern,
            On.PARTS: self._check_parts,
            On.SOME: self._check_some,
            On.MADE: self._check_some,  # what is deleted is looked at with the write: see :meth:`check_made`
            On.SPACE: lambda agent, right, _name, args: self._check_whole(agent, right, args.get("space", agent.space)),
            On.TOKEN: self._check_token,
            On.DEFAULT_SPACE: lambda agent, right, _name, _args: self._check_whole(agent, right, "default"),
            On.NAMED_SPACE: lambda agent, right, _name, args: self._check_whole(agent, right, args.get("name")),
            On.ALL_SPACES: self._check_all_spaces,
            On.HOST: self._check_host,
            On.LEVEL: self._check_level,
        }

    # -- who somebody is ---------------------------------------------------------------------------------------

    def is_host(self, agent: Agent) -> bool:
        """Whether it runs this node: root or the daemon's user, unless it has taken on a name of its own."""
        return not agent.key_name and agent.uid in self._fleet.reach.operators

    def admit(self, agent: Agent, key: object) -> None:
        """Find out who an agent is, by its credentials and the key that its hello may hold.

        :raises NotAllowed: that is the key of nobody.
        :raises QuotaExceeded: it has too many connections.
        """
        self.left(agent)  # of a hello that was refused: another one may have come before the end
        agent.key_name, agent.key_hash = "", b""
        if key is not None:
            name, secret = decode_agent_key(key)
            record = self._cluster.get(AGENTS, name)
            proof = hash_of_secret(secret)
            if record is None or not record.exists or proof not in record.hashes:
                raise NotAllowed(
                    f"this is no key of an agent {name}: it was revoked, or is of another cluster, or has not reached "
                    f"this node yet. For a new one: crdtsync agent create {name}"
                )
            agent.key_name, agent.key_hash = name, proof
        agent.identities = _identities(agent)
        self.know(agent)
        if not self.is_host(agent):
            agent.account = self.accounts.open(agent.who, self._node.now_s)

    def know(self, agent: Agent) -> None:
        """Work out anew what an agent may do."""
        agent.grants = {}
        if self.is_host(agent):
            agent.everywhere = Right.HOST
        else:
            is_free = SOCKET in agent.identities and self.rules.is_open
            agent.everywhere = Right.ADMIN if is_free else Right.NONE

    def left(self, agent: Agent) -> None:
        """It is gone."""
        if agent.account is not None:
            agent.account.connections -= 1
            agent.account = None

    def check_label(self, agent: Agent, label: object) -> None:
        """Whether an agent may write under a name.

        :raises NotAllowed: the name is another's, who proves it with a key, or looks like it.
        """
        if label == agent.key_name or type(label) is not str or self.is_host(agent):
            return
        if self._is_taken(label):
            raise NotAllowed(
                f"the agent name {label} can be used with its key alone: give the key (CRDTSYNC_AGENT_KEY), or choose "
                "another name"
            )

    def _is_taken(self, name: str) -> bool:
        """Whether a name is that of an agent with a key, or one that people would read as it."""
        return bool(self._taken) and (name in self._taken or normalize("NFKC", name).casefold() in self._taken)

    def is_key_valid(self, agent: Agent) -> bool:
        """Whether an agent is still who it was when it attached, and its name still free for it."""
        if agent.key_name:
            record = self._cluster.get(AGENTS, agent.key_name)
            if record is None or not record.exists or agent.key_hash not in record.hashes:
                return False
        return agent.name == agent.key_name or not self._is_taken(agent.name) or self.is_host(agent)

    def reload(self) -> None:
        """Read all records anew."""
        self.rules.reload()
        self._taken = {name for name, record in self._cluster.all(AGENTS) if record.exists}

    def agents_changed(self, names: Iterable[str]) -> None:
        """Read the records of these agents again."""
        for name in names:
            record = self._cluster.get(AGENTS, name)
            exists = record is not None and record.exists
            (self._taken.add if exists else self._taken.discard)(name)

    def limits(self, who: str) -> Limits:
        """The quotas of an identity."""
        record = self._cluster.get(QUOTAS, who)
        own = {} if record is None else {name: getattr(record, name) for name in QUOTA_NAMES}
        return self.default_limits._replace(**{name: limit for name, limit in own.items() if limit is not None})

    # -- what it may do ----------------------------------------------------------------------------------------

    def check(self, agent: Agent, name: str, args: Arguments) -> None:
        """Whether an agent may do what it asks.

        :raises NotAllowed: no; the message says what is missing, and who can give it.
        """
        if "agent" in args:
            self.check_label(agent, args["agent"])
        right, on = NEEDED.get(name, UNKNOWN_REQUEST)
        if agent.everywhere < right:
            self._checks[on](agent, right, name, args)

    def check_made(self, agent: Agent, space: str, what: str, authors: Iterable[str | None]) -> None:
        """Whether an agent may delete what these authors have made: what it has made itself, as its key proves, and
        all, if it may write all keys of the space.

        :raises NotAllowed: no.
        """
        grant, right = self.grant(agent, space), Right.WRITE
        is_own = agent.key_name not in ("", OWN_AGENT) and all(author == agent.key_name for author in authors)
        if not is_own and max(agent.everywhere, grant.whole) < right:
            raise self._refusal(agent, right, space, grant, f"all keys, as is needed to delete {what}", EVERYTHING)

    def grant(self, agent: Agent, space: object) -> Grant:
        """The rights of an agent in a space, or in an archive of it."""
        if type(space) is not str:
            return NO_GRANT
        grant = agent.grants.get(space)
        return self._find_grant(agent, space) if grant is None else grant

    def _find_grant(self, agent: Agent, space: str) -> Grant:
        """All connections of one agent share what was found; an agent remembers that of spaces which are here."""
        place = (agent.identities, space)
        grant = self._grants.get(place)
        if grant is None:
            name, epoch = archive_of(space) or (space, None)
            grant = self.rules.grant(name, agent.identities, epoch)
            if len(self._grants) >= GRANTS_MAX:
                self._grants.clear()
            self._grants[place] = grant
        if space in self._node.replicas:
            agent.grants[space] = grant
        return grant

    def forget(self) -> None:
        """Rules have changed: work everything out anew."""
        self._grants.clear()

    def limit_of(self, agent: Agent, space: str) -> Grant | None:
        """The bounds of an agent's reading in a space; None: it may read everything there."""
        if agent.everywhere >= Right.READ:
            return None
        grant = self.grant(agent, space)
        return None if grant.whole >= Right.READ else grant

    def sees(self, agent: Agent, space: str) -> bool:
        """Whether an agent may know of a space: it has some right there."""
        return agent.everywhere >= Right.HOST or self.grant(agent, space).most > Right.NONE

    def sees_all_of(self, agent: Agent, space: str) -> bool:
        """Whether it may read everything there."""
        return self.limit_of(agent, space) is None

    def sees_everything(self, agent: Agent) -> bool:
        """Whether it may read everything on this node."""
        return all(self.sees_all_of(agent, name) for name in self._node.replicas if name != CLUSTER_SPACE)

    def is_open(self, space: str) -> bool:
        """Whether the socket's owner and group may read all of a space, as they may at first."""
        return self.rules.grant(space, (SOCKET,)).whole >= Right.READ

    def note(self, agent: Agent, name: str, refusal: CrdtSyncError) -> None:
        """Log what was refused for lack of a right or by a quota: of one agent and request once a minute."""
        if self.is_host(agent) or not isinstance(refusal, NotAllowed | QuotaExceeded | UnknownSpace):
            return
        place, now_s = (agent.who, name if name in NEEDED else ""), self._node.now_s
        if now_s < self._noted.get(place, 0.0):
            return
        if len(self._noted) >= NOTED_MAX:
            self._noted.clear()
        self._noted[place] = now_s + NOTE_INTERVAL_S
        self._node.log(
            "request_refused",
            agent=agent.name,
            who=agent.who,
            uid=agent.uid,
            pid=agent.pid,
            request=shown(name),
            code=refusal.code,
            reason=refusal.message,
        )

    # -- the checks --------------------------------------------------------------------------------------------

    def _check_key(self, agent: Agent, right: Right, name: str, args: Arguments) -> None:
        key, space = args.get("key"), args.get("space", agent.space)
        grant = self.grant(agent, space)
        if type(key) is not str:
            self._check_most(agent, right, grant, space)
        elif grant.on(key) < right:
            pattern = f"{key.rpartition('/')[0]}/**" if name == "show" else key  # each card has a key of its own
            raise self._refusal(agent, right, space, grant, f"the key {shown(key)}", pattern)

    def _check_keys(self, agent: Agent, right: Right, name: str, args: Arguments) -> None:
        keys = args.get("keys")
        for key in keys if type(keys) is list and keys else [None]:
            self._check_key(agent, right, name, {**args, "key": key})

    def _check_key_or_prefix(self, agent: Agent, right: Right, name: str, args: Arguments) -> None:
        check = self._check_key if "key" in args else self._check_prefix
        check(agent, right, name, args)

    def _check_prefix(self, agent: Agent, right: Right, _name: str, args: Arguments) -> None:
        prefix, space = args.get("prefix", ""), args.get("space", agent.space)
        grant = self.grant(agent, space)
        if type(prefix) is not str:
            self._check_most(agent, right, grant, space)
        elif grant.on_some(prefix) < right:
            what = f"keys that begin with {shown(prefix)}" if prefix else "any key"
            raise self._refusal(agent, right, space, grant, what, f"{prefix.rstrip('/')}/**" if prefix else EVERYTHING)

    def _check_pattern(self, agent: Agent, right: Right, _name: str, args: Arguments) -> None:
        space = args.get("space", agent.space)
        grant = self.grant(agent, space)
        if grant.most is Right.NONE and space != DEFAULT_SPACE:
            raise self.missing(agent, space)
        pattern = check_pattern(args.get("pattern", EVERYTHING))
        if grant.on_all(pattern) < right:
            raise self._refusal(agent, right, space, grant, f"all keys of {shown(pattern.text)}", pattern.text)

    def _check_parts(self, agent: Agent, right: Right, _name: str, args: Arguments) -> None:
        space, parts = args.get("space", agent.space), args.get("ops")
        if not self.sees(agent, space) and space != DEFAULT_SPACE:
            raise self.missing(agent, space)  # as a whole: nothing of its parts is looked at
        if type(parts) is not list or not parts:
            self._check_most(agent, right, self.grant(agent, space), space)
            return
        for index, part in enumerate(parts):
            match part:
                case [str(name), dict(arguments)] if name != "batch":
                    needed, on = NEEDED.get(name, UNKNOWN_REQUEST)
                    try:
                        self._checks[on](agent, needed, name, {**arguments, "space": space})
                    except CrdtSyncError as refusal:
                        refusal.details |= {"index": index, "op": name}
                        refusal.message = f"operation {index} of the batch ({name}): {refusal.message}"
                        first, slash, _ = str(arguments.get("key", "")).partition("/")
                        if slash and first[:1] not in ("", "_") and isinstance(refusal, NotAllowed):
                            refusal.message += f" (or '{first}/**', for all keys that begin like this one)"
                        refusal.args = (refusal.message,)
                        raise

    def _check_some(self, agent: Agent, right: Right, _name: str, args: Arguments) -> None:
        space = args.get("space", agent.space)
        self._check_most(agent, right, self.grant(agent, space), space)

    def _check_token(self, agent: Agent, right: Right, _name: str, args: Arguments) -> None:
        for space in sorted(decode_token(args.get("token"))):
            if space != CLUSTER_SPACE:
                self._check_most(agent, right, self.grant(agent, space), space)

    def _check_most(self, agent: Agent, right: Right, grant: Grant, space: object) -> None:
        if grant.most < right:
            raise self._refusal(agent, right, space, grant, "any key", EVERYTHING)

    def _check_whole(self, agent: Agent, right: Right, space: object) -> None:
        grant = self.grant(agent, space)
        if grant.whole < right:
            raise self._refusal(agent, right, space, grant, "all keys", EVERYTHING)

    def _check_all_spaces(self, agent: Agent, right: Right, name: str, _args: Arguments) -> None:
        for space in sorted(self._node.replicas):
            if space != CLUSTER_SPACE and self.grant(agent, space).whole < right:
                raise NotAllowed(
                    f"{agent.who} may not ask for {name}, which shows figures of all spaces: that needs the right to "
                    "read all of each of them",
                    who=agent.who,
                    right=right.word,
                )

    def _check_host(self, agent: Agent, _right: Right, name: str, _args: Arguments) -> None:
        if not self.is_host(agent):
            proven = ", without an agent key" if agent.key_name else ""
            raise NotAllowed(
                f"only root and the user that crdtsyncd runs as may do this ({name}): run it as one of them{proven}, "
                "with sudo for a service of the machine",
                who=agent.who,
                right=Right.HOST.word,
            )

    def _check_level(self, agent: Agent, right: Right, name: str, args: Arguments) -> None:
        if args.get("level") is not None:
            self._check_host(agent, right, name, args)

    def _refusal(
        self, agent: Agent, right: Right, space: object, grant: Grant, what: str, pattern: str
    ) -> NotAllowed | UnknownSpace:
        if grant.most is Right.NONE and space != DEFAULT_SPACE:
            return self.missing(agent, space)
        verb = {Right.READ: "read", Right.WRITE: "write"}.get(right, "administer")
        rules = [f"{rule.right.word} {rule.pattern.text}" for rule in grant.rules]
        held = ", ".join(rules[:RULES_SHOWN_MAX]) + (" and more" if len(rules) > RULES_SHOWN_MAX else "")
        has = f"the rules for it there say: {held}" if rules else "no rule gives it any right there"
        name = shown(space) if type(space) is not str else space
        return NotAllowed(
            f"{agent.who} may not {verb} {what} in the space {name}: {has}. Who administers the space can grant it: "
            f"crdtsync access grant {agent.who} {right.word} '{pattern}' --space {name}",
            who=agent.who,
            right=right.word,
            space=name,
        )

    def missing(self, agent: Agent, space: object) -> UnknownSpace:
        """The answer about a space that does not exist; and, word for word, about one in which an agent may do nothing,
        so that nobody learns of spaces by asking for them.
        """
        name = str(space) if is_space_name(space) else shown(space)
        seen = [one for one in sorted(self._node.replicas) if is_name(one) and self.sees(agent, one)]
        here = ", ".join(seen[:SPACES_SHOWN_MAX]) + (" and more" if len(seen) > SPACES_SHOWN_MAX else "")
        make = "To make one: crdtsync space create"
        if self.is_host(agent):
            return UnknownSpace(f"there is no space {name} on this node; it has {here}. {make}")
        return UnknownSpace(
            f"there is no space {name} on this node for {agent.who}, who may use {here or 'none'}. {make}. If there is "
            f"one, who administers it can let others in: crdtsync access grant {agent.who} read --space "
            f"{name.partition('@')[0]}"
        )


def _identities(agent: Agent) -> tuple[str, ...]:
    """Under what names rules may speak of an agent. A key stands in the place of the user, and adds nothing to it."""
    if agent.key_name:
        return f"agent:{agent.key_name}", ANYONE
    groups = tuple(f"gid:{gid}" for gid in sorted({*agent.gids}))
    return (f"uid:{agent.uid}", *groups, *((SOCKET,) if agent.is_local else ()), ANYONE)
