"""Requests of agents about rights: make and revoke agents, grant and revoke rights, set quotas, list all of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from crdtsync.causality import VersionVector
from crdtsync.core.access.record_cleanup import RULES_MAX, Compactor
from crdtsync.core.access.records import (
    ACCESS,
    AGENTS,
    BUILT_IN,
    NO_RULE,
    QUOTA_MAX,
    QUOTA_NAMES,
    QUOTAS,
    AccessRecord,
    AgentRecord,
    QuotaRecord,
    rule_name,
)
from crdtsync.core.access.requirements import GRANTED, Right
from crdtsync.core.access.rules import ANYONE, EVERYTHING, SOCKET, Rule
from crdtsync.core.cluster.space_records import DEFAULT_SPACE
from crdtsync.core.kinds.arguments import Arguments
from crdtsync.errors import InvalidRequest, QuotaExceeded
from crdtsync.wire.agent_keys import HASH_BYTES, SECRET_BYTES, encode_agent_key, hash_of_secret
from crdtsync.wire.limits import KEY_BYTES_MAX, check_name, is_name, is_space_name, key_fault, shown
from crdtsync.wire.patterns import check_new_pattern, check_pattern

if TYPE_CHECKING:
    from crdtsync.core.access.agent import Agent
    from crdtsync.core.access.authorizer import Authorizer
    from crdtsync.core.cluster.records import Cluster
    from crdtsync.core.cluster.spaces import Spaces
    from crdtsync.core.node_context import NodeContext
    from crdtsync.core.sync.protocol import Sync

Handler = Callable[["Agent", int, Arguments], object]

ID_DIGITS_MAX = 10

_BY_WORD = {right.word: right for right in GRANTED}


class AccessRequests:
    """The handlers of these requests, in ``requests``. ``attached``: the agents that are attached, by connection."""

    def __init__(
        self,
        node: NodeContext,
        cluster: Cluster,
        spaces: Spaces,
        sync: Sync,
        authorizer: Authorizer,
        attached: Mapping[int, Agent],
    ) -> None:
        self._node = node
        self._cluster = cluster
        self._spaces = spaces
        self._authorizer = authorizer
        self._attached = attached
        self._compactor = Compactor(node, cluster, spaces, sync, authorizer.rules)
        self.requests: Mapping[str, Handler] = {
            "agent_create": lambda agent, _request, args: self._create_agent(agent, args),
            "agent_revoke": lambda agent, _request, args: self._revoke_agent(agent, args),
            "agent_list": lambda agent, _request, _args: self._list_agents(agent),
            "access_grant": lambda agent, _request, args: self._grant(agent, args),
            "access_revoke": lambda agent, _request, args: self._revoke(agent, args),
            "access_list": lambda agent, _request, args: self._list_rules(agent, args),
            "access_quota": lambda agent, _request, args: self._set_quota(agent, args),
        }

    # -- agents ------------------------------------------------------------------------------------------------

    def _create_agent(self, agent: Agent, args: Arguments) -> dict[str, Any]:
        cluster = self._cluster
        name, proof = check_name(args.get("name"), "an agent"), args.get("hash")
        if proof is not None and (type(proof) is not bytes or len(proof) != HASH_BYTES):
            raise InvalidRequest(f"hash must be the {HASH_BYTES} bytes that stand for a key, or nil for a new key")
        before = cluster.get(AGENTS, name)
        if before is not None and before.exists:
            if proof in before.hashes:
                return {"name": name, "key": None, "token": self._cluster.token(None)}  # asked for once more
            raise InvalidRequest(
                f"there is an agent {name} already, and its key is shown once alone: for a new key, "
                f"crdtsync agent revoke {name} first"
            )
        self._compactor.check_room(AGENTS, name)
        secret = self._node.random.randbytes(SECRET_BYTES)
        key = encode_agent_key(name, secret) if proof is None else None
        serial = 1 if before is None else before.serial + 1
        record = AgentRecord(serial, (proof or hash_of_secret(secret),), self._node.now_ms, agent.name)
        point = cluster.put(AGENTS, name, record)
        return {"name": name, "key": key, "token": self._cluster.token(point)}

    def _revoke_agent(self, agent: Agent, args: Arguments) -> dict[str, Any]:
        cluster = self._cluster
        name = check_name(args.get("name"), "an agent")
        before = cluster.get(AGENTS, name)
        if before is None or not before.exists:
            raise InvalidRequest(f"there is no agent {name} with a key: see crdtsync agent list")
        attached = sum(one.key_name == name for one in self._attached.values())
        point = cluster.put(AGENTS, name, AgentRecord(before.serial + 1, (), self._node.now_ms, agent.name))
        return {"name": name, "ended": attached, "token": self._cluster.token(point)}

    def _list_agents(self, agent: Agent) -> dict[str, Any]:
        is_host = self._authorizer.is_host(agent)
        attached = [one.key_name for one in self._attached.values()]
        return {
            "agents": [
                {"name": name, "time": record.time_ms, "by": record.by, "attached": attached.count(name)}
                for name, record in self._cluster.all(AGENTS)
                if record.exists and (is_host or name == agent.key_name)
            ]
        }

    # -- rules -------------------------------------------------------------------------------------------------

    def _grant(self, agent: Agent, args: Arguments) -> dict[str, Any]:
        space, who, text = self._subject(agent, args)
        right = _right(args.get("right"))
        before = self._authorizer.rules.record(space, who, text)
        if before is not None and before.right >= right:
            return self._answer(space, who, text, is_changed=False)
        check_new_pattern(text)
        self._compactor.check_room(ACCESS, rule_name(space, who, text))
        return self._put(agent, space, who, text, before, right)

    def _revoke(self, agent: Agent, args: Arguments) -> dict[str, Any]:
        space, who, text = self._subject(agent, args)
        right = _right(args.get("right", Right.READ.word))
        before = self._authorizer.rules.record(space, who, text)
        if before is None or before.right < right:
            return self._answer(space, who, text, is_changed=False)
        self._compactor.check_room(ACCESS, rule_name(space, who, text))
        return self._put(agent, space, who, text, before, Right(right - 1))

    def _put(
        self, agent: Agent, space: str, who: str, text: str, before: AccessRecord | None, right: Right
    ) -> dict[str, Any]:
        making = self._authorizer.rules.making(space) or 0
        record = (before or NO_RULE._replace(epoch=making)).with_right(right, self._node.now_ms, agent.name)
        return self._answer(space, who, text, self._cluster.put(ACCESS, rule_name(space, who, text), record))

    def begin_private(self, agent: Agent, space: str, making: int) -> None:
        """Write the rules of a space that is about to be made for its maker alone: before it, so that it is never open.

        :raises QuotaExceeded: there are too many rules.
        """
        rules = ((SOCKET, BUILT_IN, Right.NONE), (agent.who, NO_RULE, Right.ADMIN))
        for who, before, right in rules:
            name = rule_name(space, who, EVERYTHING)
            self._compactor.check_room(ACCESS, name)
            record = before._replace(epoch=making).with_right(right, self._node.now_ms, agent.name)
            self._cluster.put(ACCESS, name, record)

    def _subject(self, agent: Agent, args: Arguments) -> tuple[str, str, str]:
        """Space, who and pattern of the rule that a request is about.

        :raises UnknownSpace: nobody has made the space yet. Its maker begins with rules of their own.
        """
        space = check_name(args.get("space", agent.space), "a space")
        if self._authorizer.rules.making(space) is None:
            raise self._authorizer.missing(agent, space)
        who, text = _who(args.get("who")), check_pattern(args.get("pattern", EVERYTHING)).text
        if key_fault(ACCESS.prefix + rule_name(space, who, text)) is not None:
            raise InvalidRequest(
                f"the pattern {shown(text)} is too long: with space and agent it may have {KEY_BYTES_MAX:,} bytes"
            )
        return space, who, text

    def _answer(
        self, space: str, who: str, text: str, point: VersionVector | None = None, *, is_changed: bool = True
    ) -> dict[str, Any]:
        record = self._authorizer.rules.record(space, who, text)
        right = Right.NONE if record is None else record.right
        return {
            "space": space,
            "who": who,
            "pattern": text,
            "right": None if right is Right.NONE else right.word,
            "changed": is_changed,
            "token": self._cluster.token(point),
        }

    def _list_rules(self, agent: Agent, args: Arguments) -> dict[str, Any]:
        return {
            "rules": list(self._rules(agent, args)),
            "quotas": list(self._quotas(agent)),
            "quota_defaults": self._authorizer.default_limits._asdict(),
        }

    def _rules(self, agent: Agent, args: Arguments) -> Iterator[dict[str, Any]]:
        """The rules of a space, or of ``all``: those that it may see, which are all for who administers the space.

        :raises InvalidRequest: no space can be called that.
        :raises UnknownSpace: it may not know of the space.
        """
        authorizer, named = self._authorizer, args.get("space", agent.space)
        if args.get("all") is True:
            spaces = [name for name, _ in self._spaces.listed()]
        elif not is_space_name(named):
            raise InvalidRequest("space must be the name of a space")
        elif named != DEFAULT_SPACE and not authorizer.sees(agent, named):
            raise authorizer.missing(agent, named)
        else:
            spaces = [named]
        for space in spaces:
            is_admin = agent.everywhere >= Right.ADMIN or authorizer.grant(agent, space).whole >= Right.ADMIN
            for rule in authorizer.rules.all_of(space):
                if is_admin or rule.who in agent.identities:
                    yield self._described(space, rule)

    def _described(self, space: str, rule: Rule) -> dict[str, Any]:
        record = self._authorizer.rules.record(space, rule.who, rule.pattern.text) or NO_RULE
        return {
            "space": space,
            "who": rule.who,
            "pattern": rule.pattern.text,
            "right": rule.right.word,
            "time": record.time_ms or None,
            "by": record.by or None,
        }

    # -- quotas ------------------------------------------------------------------------------------------------

    def _set_quota(self, agent: Agent, args: Arguments) -> dict[str, Any]:
        who = _who(args.get("who"))
        if not who.startswith(("agent:", "uid:")):
            raise InvalidRequest(f"a quota is of one agent, agent:NAME or uid:NUMBER, not of {who}")
        given = {name: args[name] for name in QUOTA_NAMES if name in args}
        for name, limit in given.items():
            if limit is not None and (type(limit) is not int or not 1 <= limit <= QUOTA_MAX):
                raise InvalidRequest(f"{name} must be a whole number from 1 to {QUOTA_MAX:,}, or nil for the default")
        before = self._cluster.get(QUOTAS, who) or QuotaRecord()
        limits = {name: given.get(name, getattr(before, name)) for name in QUOTA_NAMES}
        record = QuotaRecord(**limits, time_ms=self._node.now_ms, by=agent.name)
        if before == QuotaRecord() and len(self._cluster.names(QUOTAS)) >= RULES_MAX:
            raise QuotaExceeded(f"the cluster has quotas for {RULES_MAX:,} agents already")
        point = self._cluster.put(QUOTAS, who, record)
        return {"who": who, **limits, "token": self._cluster.token(point)}

    def _quotas(self, agent: Agent) -> Iterator[dict[str, Any]]:
        is_host = self._authorizer.is_host(agent)
        for who, record in self._cluster.all(QUOTAS):
            limits = {name: getattr(record, name) for name in QUOTA_NAMES}
            if (is_host or who == agent.who) and any(limit is not None for limit in limits.values()):
                yield {"who": who, **limits}


def _right(word: object) -> Right:
    right = _BY_WORD.get(word) if isinstance(word, str) else None
    if right is None:
        raise InvalidRequest(f"the right must be one of {', '.join(_BY_WORD)}, not {shown(word)}")
    return right


def _who(text: object) -> str:
    """A word that names somebody, checked."""
    form, _, name = text.partition(":") if isinstance(text, str) else ("", "", "")
    is_known = text in (SOCKET, ANYONE) or (form == "agent" and is_name(name))
    if form in ("uid", "gid"):
        is_known = len(name) <= ID_DIGITS_MAX and name.isascii() and name.isdecimal() and str(int(name)) == name
    if not is_known:
        raise InvalidRequest(
            f"{shown(text)} names nobody: use agent:NAME, uid:NUMBER, gid:NUMBER, {SOCKET} (its owner and group) or "
            f"{ANYONE}"
        )
    return str(text)
