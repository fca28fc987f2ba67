"""What can happen in a cluster, and what must hold at its end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from crdtsync.core.cluster.admission import MEMBERS, REMOVED
from crdtsync.core.cluster.records import RecordType
from crdtsync.core.cluster.space_records import SpaceRecord
from crdtsync.wire.codec import pack
from crdtsync.wire.invites import decode_invite
from crdtsync.wire.limits import CLUSTER_SPACE
from crdtsync.wire.peer.joining import NotAdmitted
from crdtsync.wire.tokens import decode_token
from tests.simulator.clusters.rights import RIGHTS, Rights, Rule, listed
from tests.simulator.clusters.world import STRANGER_UID, ClusterWorld, Host, Refusal, Session
from tests.simulator.histories import Step
from tests.simulator.model import Broken, require

HOSTS_MAX = 6
SPACES = ("default", "one", "two")
AGENTS = ("critic", "planner")
PATTERNS_OF = {"docs/a": ("**", "docs/**"), "secret/b": ("**", "secret/*")}
"""Keys, and which of the patterns that are used match them."""
PATTERNS = ("**", "docs/**", "secret/*")
JOIN_FAULTS = ("forged", "replayed", "unsigned", "used", "expired", "removed")
INVITE_TTL_MS = 60_000
HEALING_ROUNDS = 4

WEIGHTS = {
    "write": 5, "part": 2, "meet": 4, "deliver": 4, "wait": 2, "restart": 1, "join": 2, "join_wrongly": 2, "remove": 1,
    "move": 1, "grant": 3, "revoke": 2, "use_right": 4, "make_space": 2, "take_records_away": 1,
}  # fmt: skip


class Written(NamedTuple):
    """An acknowledged write of a word that occurs nowhere else."""

    word: str
    host: Host
    space: str
    record: SpaceRecord
    circle: set[Host]  # who could have come to know of it: others never must


class Player:
    """Does one thing after the other in a cluster."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world
        self.rights = Rights()
        self.written: list[Written] = []
        self.keys: dict[str, tuple[str, Any]] = {}
        first = world.begin()
        for name in AGENTS:
            made = first.operator().ask("agent_create", name=name)
            self.keys[name] = (made["key"], _point(made))
        for _ in range(2):
            self._join(first)
        self.meet_all()

    def play(self, name: str, seed: int) -> None:
        """Do one of the :data:`WEIGHTS`; all that is left to chance in it comes from ``seed``."""
        self.world.random.seed(seed)
        self.world.counts[name] += 1
        hosts = self.world.hosts
        host = hosts[self.world.random.randrange(len(hosts))]
        self.world.note(f"-- {name} at {host.name}")
        getattr(self, name)(host)

    def _pick(self, choices: Any) -> Any:
        return choices[self.world.random.randrange(len(choices))]

    def _chance(self, part: float) -> bool:
        return self.world.random.random() < part

    # -- what is written -------------------------------------------------------------------------------------------

    def write(self, host: Host) -> None:
        """The operator writes a word."""
        space = self._pick(SPACES)
        word = self.world.random.randbytes(8).hex()
        record = host.node.spaces.record(space)
        try:
            host.operator().write("set", key=word, value=pack(word), space=space)
        except Refusal as refusal:
            require(refusal.code == "unknown_space", host.name, "refuses to write in", space, refusal)
            require(record is None or not (record.exists and _may_hold(record, host)), host.name, "lacks", space)
            return
        assert record is not None
        require(_may_hold(record, host), host.name, "takes a write in", space, "which is for others")
        self.world.note(host.name, "writes", word, "in", space)
        self.written.append(Written(word, host, space, record, self.world.circle(host)))

    def make_space(self, host: Host) -> None:
        """Make a space for some nodes or for all, or drop one."""
        name = self._pick(SPACES[1:])
        known = [host.id, *host.node.sync.peers]
        nodes = self.world.random.sample(known, self.world.random.randint(1, len(known))) if self._chance(0.7) else None
        try:
            if self._chance(0.25):
                host.operator().ask("space_drop", name=name)
            else:
                host.operator().ask("space_create", name=name, nodes=nodes)
            self.world.note(host.name, "makes or drops", name, "for", nodes)
        except Refusal as refusal:
            require(refusal.code in ("unknown_space", "invalid_request"), host.name, "refuses", name, refusal)

    # -- what connects hosts, and what becomes of them ---------------------------------------------------------------

    def part(self, host: Host) -> None:
        """Some connections break."""
        for wire in [wire for wire in host.wires.values() if self._chance(0.7)]:
            wire.close("cut")

    def meet(self, host: Host) -> None:
        """It dials another, which may take it or not."""
        other = self._pick(self.world.hosts)
        if self.world.link(host, other):
            self.world.note(host.name, "meets", other.name)
        self.deliver(host)

    def meet_all(self) -> None:
        """All that accept each other are connected, and everything is delivered."""
        for one in self.world.hosts:
            for other in self.world.hosts:
                self.world.link(one, other)
        self.world.settle()

    def deliver(self, _host: Host) -> None:
        """Some of what is under way, or all."""
        if self._chance(0.3):
            self.world.settle()
        for wire in list(self.world.wires):
            for end in wire.ends:
                wire.deliver(end, self.world.random.randint(0, 5))
                end.turn()

    def wait(self, host: Host) -> None:
        """Time passes."""
        self.world.pass_time(self.world.random.random() * 2)
        self.deliver(host)

    def restart(self, host: Host) -> None:
        """A daemon is killed."""
        host.restart()

    def move(self, host: Host) -> None:
        """Its address changes, so that it writes its own record anew: maybe just when somebody removes it."""
        host.addresses = (f"10.0.{self.world.random.randrange(100)}.{host.index + 1}:4440",)
        host.tell_reach()
        host.turn()

    # -- members ---------------------------------------------------------------------------------------------------

    def join(self, host: Host) -> None:
        """A new node joins by an invite of this one."""
        if len(self.world.hosts) < HOSTS_MAX:
            self._join(host)

    def _join(self, host: Host) -> Host | None:
        invite = self._invite(host)
        if invite is None:
            return None
        found = self.world.ask_to_join(host, invite, self.world.new_key())
        if isinstance(found, NotAdmitted):
            raise Broken(f"{host.name} does not let in whom it has invited: {found}")
        self.world.note(found.name, "joins by", host.name)
        for written in self.written:
            if host in written.circle:
                written.circle.add(found)
        return found

    def _invite(self, host: Host) -> Any:
        try:
            made = host.operator().ask("cluster_invite", local=True, ttl_ms=INVITE_TTL_MS)
        except Refusal as refusal:
            require(host.id in host.membership.removed, host.name, "gives no invite:", refusal)
            return None
        return decode_invite(made["invite"])

    def join_wrongly(self, host: Host) -> None:
        """Somebody asks to join who must not be let in."""
        fault = self._pick(JOIN_FAULTS)
        invite, key = self._invite(host), self.world.new_key()
        if invite is None:
            return
        if fault == "used" and len(self.world.hosts) < HOSTS_MAX:
            found = self.world.ask_to_join(host, invite, self.world.new_key())
            assert isinstance(found, Host)
            for written in self.written:
                if host in written.circle:
                    written.circle.add(found)
        elif fault == "used":
            return
        if fault == "expired":
            self.world.pass_time(INVITE_TTL_MS / 1000 + 1)
        if fault == "removed":
            if not host.membership.removed:
                return
            gone = host.membership.removed[self._pick(sorted(host.membership.removed))]
            key = gone.keys[0]
        answer = self.world.ask_to_join(host, invite, key, fault)
        require(isinstance(answer, NotAdmitted), host.name, "lets in who must not be let in:", fault)
        self.world.counts[f"not let in: {fault}"] += 1

    def remove(self, host: Host) -> None:
        """A member is removed, for good."""
        others = [node for node in sorted(host.membership.members) if node != host.id]
        if not others or len(self.world.hosts) - len(host.membership.removed) < 3:
            return
        node = self._pick(others)
        host.operator().ask("cluster_remove", node=node)
        host.turn()
        require(node in host.membership.removed, host.name, "has removed", node, "and counts it as a member")
        self.world.note(host.name, "removes", next((one.name for one in self.world.hosts if one.id == node), node))

    def take_records_away(self, host: Host) -> None:
        """A member that keeps to no rule deletes what the cluster's records say of members and of removals."""
        if host.id in host.membership.removed:
            return
        kinds: tuple[RecordType[Any], ...] = (MEMBERS, REMOVED)
        for kind in kinds:
            for name in host.node.cluster.names(kind):
                if self._chance(0.5):
                    self.world.note(host.name, "takes away", kind.prefix + name)
                    host.node.cluster.remove(kind, name)
        host.turn()

    # -- rights ----------------------------------------------------------------------------------------------------

    def grant(self, host: Host) -> None:
        """A rule grants more than it did."""
        rule = self._rule()
        level = self.world.random.randint(1, len(RIGHTS))
        self._act(host, rule, level, "access_grant", RIGHTS[level - 1])

    def revoke(self, host: Host) -> None:
        """A rule grants less than it did."""
        rule = self._rule()
        level = self.world.random.randint(0, len(RIGHTS) - 1)
        self._act(host, rule, level, "access_revoke", RIGHTS[level])

    def _rule(self) -> Rule:
        return f"agent:{self._pick(AGENTS)}", self._pick(PATTERNS)

    def _act(self, host: Host, rule: Rule, level: int, operation: str, word: str) -> None:
        before = dict(host.records.vector)
        held = self.rights.level(rule, before)
        done = host.operator().ask(operation, who=rule[0], pattern=rule[1], right=word)
        is_grant = operation == "access_grant"
        is_needed = held < level if is_grant else held > level
        require(done["changed"] == is_needed, host.name, operation, rule, word, "does", done, "where it held", held)
        if is_needed:
            self.rights.acted(rule, level, before, _point(done))
            self.world.note(host.name, operation, *rule, word)
        self.check_rules(host)

    def use_right(self, host: Host) -> None:
        """An agent reads or writes where it may, or is refused."""
        name, key = self._pick(AGENTS), self._pick(sorted(PATTERNS_OF))
        vector = host.records.vector
        secret, made = self.keys[name]
        is_known = all(vector.get(writer, 0) >= seq for writer, seq in made.items())
        try:
            agent = Session(host, name, STRANGER_UID, key=secret)
        except Refusal as refusal:
            require(not is_known, host.name, "does not know", name, refusal)
            return
        require(is_known, host.name, "lets in an agent of which it has no record:", name)
        level = max(self.rights.level((f"agent:{name}", pattern), vector) for pattern in PATTERNS_OF[key])
        for needed, ask in ((1, self._read), (2, self._write)):
            is_done = ask(agent, key)
            self.world.counts["allowed" if is_done else "refused"] += 1
            what = (host.name, "lets" if is_done else "does not let", name, ask.__name__, key, "with level", level)
            require(is_done == (level >= needed), *what)
        agent.close()

    def _read(self, agent: Session, key: str) -> bool:
        return _is_allowed(lambda: agent.ask("get", key=key))

    def _write(self, agent: Session, key: str) -> bool:
        return _is_allowed(lambda: agent.write("set", key=key, value=pack(1)))

    # -- what must hold --------------------------------------------------------------------------------------------

    def check_rules(self, host: Host) -> None:
        """A node lists what the model makes of the rules that it knows."""
        found = listed(host.operator().ask("access_list", space="default")["rules"])
        wanted = self.rights.table(host.records.vector)
        require(found == wanted, host.name, "lists the rules", found, "and ought to list", wanted)

    def heal(self) -> None:
        """Everybody meets whoever takes it, until all of them know the same."""
        for _ in range(HEALING_ROUNDS):
            self.meet_all()
            for _ in range(3):
                self.world.pass_time(0.5)
                self.world.settle()

    def check(self) -> None:
        """All who can meet agree; nothing has come where it must not; nothing is lost."""
        for host in self.world.hosts:
            self._check_leaks(host)
        for circle in self.world.circles():
            views = {host.name: (sorted(host.membership.members), sorted(host.membership.removed)) for host in circle}
            _require_equal("members", views)
            _require_equal("rules", {host.name: self._rules_of(host) for host in circle})
            for space in SPACES:
                self._check_space(space, circle)
        for host in self.world.hosts:
            alarms = {alarm.code for alarm in host.node.alarms.raised()}
            require(not alarms & {"divergence", "fork"}, host.name, "raises the alarms", alarms)
        for each in self.written:
            require(self._is_kept(each), each.word, "of", each.host.name, "in", each.space, "is gone")

    def _rules_of(self, host: Host) -> Any:
        self.check_rules(host)
        return sorted(listed(host.operator().ask("access_list", space="default")["rules"]).items())

    def _check_space(self, space: str, circle: list[Host]) -> None:
        records = {host.name: host.node.spaces.record(space) for host in circle}
        _require_equal(f"the record of {space}", records)
        states = {}
        for host in circle:
            replica, record = host.node.replicas.get(space), records[host.name]
            wanted = record is not None and record.exists and _may_hold(record, host)
            require((replica is not None) == wanted, host.name, "has", space, replica is not None, "by", record)
            if replica is not None and record is not None:
                require(replica.epoch == record.epoch, host.name, "is at epoch", replica.epoch, "of", space, record)
                states[host.name] = (sorted(replica.vector.items()), replica.entries.digest)
        self._check_same_holders(space, [host for host in circle if host.name in states], states)

    def _check_same_holders(self, space: str, holders: list[Host], states: dict[str, Any]) -> None:
        """Holders that can meet each other without others, who must not pass on what is not theirs, agree."""
        left = [*holders]
        while left:
            near = [host for host in left if host is left[0] or self.world.is_linked(host, left[0])]
            _require_equal(space, {host.name: states[host.name] for host in near})
            left = [host for host in left if host not in near]

    def _is_kept(self, each: Written) -> bool:
        node = each.host.node
        replica = node.replicas.get(each.space)
        if replica is None or replica.epoch != each.record.epoch:
            replica = node.spaces.archives.open(f"{each.space}@{each.record.epoch}")
        return replica is not None and bool(replica.entries.held(each.word))

    def _check_leaks(self, host: Host) -> None:
        content = host.content()
        for each in self.written:
            if host not in each.circle:
                is_there = each.word.encode() in content
                require(not is_there, each.word, "of", each.host.name, "comes to", host.name, "past a removal")
            if not _may_hold(each.record, host):
                is_there = each.word.encode() in content
                require(not is_there, each.word, "in", each.space, each.record.nodes, "leaks to", host.name)


def _may_hold(record: SpaceRecord, host: Host) -> bool:
    return record.nodes is None or host.id in record.nodes


def _is_allowed(ask: Callable[[], Any]) -> bool:
    try:
        ask()
    except Refusal as refusal:
        require(refusal.code == "not_allowed", "refused for another reason:", refusal)
        return False
    return True


def _point(done: dict[str, Any]) -> dict[Any, int]:
    """The change that a request of rights has made."""
    return dict(decode_token(done["token"])[CLUSTER_SPACE][1])


def _require_equal(what: str, views: dict[str, Any]) -> None:
    first = next(iter(views.values()))
    require(all(view == first for view in views.values()), what, "differ in the end:", views)


class ClusterPlan(NamedTuple):
    """A whole history."""

    seed: int
    steps: tuple[Step, ...]

    def only(self, numbers: Any) -> ClusterPlan:
        """The same with these steps alone."""
        return self._replace(steps=tuple(step for step in self.steps if step.number in numbers))

    def play(self, told: list[str] | None = None) -> ClusterWorld:
        """Play it to its end and check everything.

        :raises Broken: a promise was not kept.
        """
        world = ClusterWorld(self.seed, told)
        try:
            player = Player(world)
            for step in self.steps:
                player.play(step.name, step.seed)
            world.random.seed(f"the end of {self.seed}")
            world.note("-- all is mended")
            player.heal()
            player.check()
        finally:
            world.close()
        return world


def plan_cluster(seed: int, steps: int) -> ClusterPlan:
    """What happens in the history of a cluster of this seed."""
    rng = Random(f"cluster {seed}")
    names = rng.choices([*WEIGHTS], [*WEIGHTS.values()], k=steps)
    return ClusterPlan(seed, tuple(Step(number, name, rng.getrandbits(48)) for number, name in enumerate(names)))
