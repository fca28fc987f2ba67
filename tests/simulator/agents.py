"""Fake agents: clients of the protocol that remember what they read, write with it, retry, and move between hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pycrdt import Doc, Text

from crdtsync.causality import Dot, Writer
from crdtsync.core.interface import AgentClosed, AgentFrame, AgentOpened
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.kinds import Kind
from crdtsync.wire.tokens import decode_dot, decode_token, decode_version, encode_dot
from tests.simulator.cases import Sub
from tests.simulator.kinds import KIND_OF, OPERATIONS, TEXTS, shown
from tests.simulator.kinds.base import Learns, check
from tests.simulator.model import Value, current, groups, identity, require
from tests.simulator.policies import PREFIX, RANKED, UNDECLARED, Schema, best_first, ranks_lower
from tests.simulator.sessions import Keeping, is_here

if TYPE_CHECKING:
    from tests.simulator.hosts import Host
    from tests.simulator.world import World


FOLLOWING = ("set", "merge")
"""Writes that may be sent before the reply to one before is there."""


@dataclass
class Request:
    """One request, and for a write what the oracle has to know of it."""

    agent: str
    number: int
    name: str
    args: dict[str, Any]
    subs: list[Sub] = field(default_factory=list)
    change: tuple[int, int] | None = None
    expected: list[Value] | None = None  # of a read that is answered at once: the live values
    texts: dict[Dot, str] = field(default_factory=dict)  # and what their documents hold
    schema: Schema = UNDECLARED  # of a read: what applies to the key
    is_lower: bool | None = None  # of a write that is done at once: whether it ranks too low; None: nobody knows
    may_be_full: bool = True  # of a write: whether it may be refused since its key has too many values
    informed: bool = False
    must: Exception | None = None  # why it cannot be done by doing nothing
    node: str = ""
    is_late: bool = False  # its daemon was frozen, or waiting for its disk
    past: dict[Writer, int] = field(default_factory=dict)  # what its agent had been shown, if that keeps it
    shown: dict[Writer, int] | None = None  # of one that was answered at once: what its node held

    @property
    def may_wait(self) -> bool:
        """Whether it may be done later, on top of something else."""
        return self.is_late or "strict" in self.args or "if_version" in self.args or "need" in self.args

    @property
    def is_write(self) -> bool:
        return bool(self.subs)


@dataclass(frozen=True)
class Read:
    """What a session remembers of a key: the daemon's version, and what that ought to mean."""

    version: str | None  # None: read as absent
    shown: frozenset[Dot] = frozenset()
    others: frozenset[Dot] = frozenset()


class Agent:
    """One session. At most one request per key is under way, as the oracle has to know what was read before.

    Every second one keeps what it has seen, over all hosts (``keeping``); the others insist on nothing.
    """

    def __init__(self, world: World, name: str, home: Host) -> None:
        self.world = world
        self.name = name
        self.home = home
        self.client = b""
        self.database = b""
        self.conn: int | None = None
        self.request_last = 0
        self.number = 0
        self.pending: dict[int, Request] = {}
        self.memory: dict[str, Read] = {}
        self.documents: dict[str, tuple[str, Doc[Text]]] = {}
        self.token: str | None = None
        self.last: tuple[int, int] | None = None  # which change that is the token of
        self.keeping = Keeping() if name.endswith("-1") else None
        self.learned: dict[str, int] = {}  # the newest write of a key that has told
        self.told: dict[tuple[str, str], Any] = {}  # what was alive and what was read last, by request and key
        world.agents.append(self)
        self._new_client()
        if home.node is not None:
            self.attach()

    def _new_client(self) -> None:
        self.client = self.world.random.randbytes(16)
        self.number = 0
        self.database = b""
        self.learned = {}

    def _new_doc(self) -> Doc[Text]:
        return Doc(client_id=self.world.random.getrandbits(48))

    # -- connections ---------------------------------------------------------------------------------------------

    def attach(self) -> None:
        """Connect, and ask again for what was not answered."""
        self.conn = self.world.new_conn()
        self.home.agents[self.conn] = self
        self.world.step(self.home, AgentOpened(self.conn, 1000, 1))
        self.request_last = 0
        unanswered = [request for request in self.pending.values() if request.is_write]
        database = self.home.running.identity.incarnation
        if self.database not in (b"", database):
            unanswered = []  # their outcome is unknown, and nobody can ask
        self.database = database
        self.pending = {}
        self._send("hello", {"protocol": 1, "client": self.client, "agent": self.name, "points": bool(self.keeping)})
        if self.keeping is not None:
            self.keeping.horizon.moved()
        for request in unanswered:
            request.args["again"] = True
            request.must = request.is_lower = None
            request.may_be_full = True  # it is answered from memory, as things stood then, or done now
            self._prepare(request)
            self._submit(request)

    def lost(self) -> None:
        """The connection broke."""
        self.conn = None

    def reconnect(self) -> None:
        """The connection breaks with replies in flight, and the client comes back."""
        if self.conn is None or self.home.node is None:
            return
        self.home.agents.pop(self.conn, None)
        if self.world.random.random() < 0.5:  # the daemon may learn of the new connection first
            self.world.step(self.home, AgentClosed(self.conn))
        self.conn = None
        self.attach()

    def leave(self) -> None:
        """End the session."""
        self._detach()
        self.world.agents.remove(self)

    def _detach(self) -> None:
        if self.conn is not None and self.home.node is not None:
            self.home.agents.pop(self.conn, None)
            self.world.step(self.home, AgentClosed(self.conn))
        self.conn = None
        self.pending = {}

    def move(self, home: Host) -> None:
        """Go on at another host: the outcome of what was not answered is unknown."""
        self._detach()
        self.home = home
        self._new_client()
        if home.node is not None:
            self.attach()

    def _send(self, name: str, args: dict[str, Any]) -> int:
        self.request_last += 1
        assert self.conn is not None
        self.world.step(self.home, AgentFrame(self.conn, pack([self.request_last, name, args])))
        return self.request_last

    def _submit(self, request: Request) -> None:
        if self.conn is None:
            return
        self.pending[self.request_last + 1] = request
        request.is_late |= self.home.is_busy
        self.world.note(f"{self.name} at {self.home.name}:", request.name, request.subs or request.args)
        number = self._send(request.name, request.args)
        if self.keeping is not None and self.conn is not None:
            self.keeping.sent(request, self.conn, number, self.home)

    def _prepare(self, request: Request) -> None:
        if self.keeping is not None:
            self.keeping.prepare(request)

    def is_busy(self, key: str) -> bool:
        return any(sub.key == key for request in self.pending.values() for sub in request.subs)

    # -- reads ---------------------------------------------------------------------------------------------------

    def read(self, key: str, whole: bool = False, after: bool = False) -> None:
        """Read a key: its winner, or the entry with all siblings (``whole``); a text, as a replica."""
        more = {"after": self.token, "timeout": 60_000} if after and self.token is not None else {}
        self.ask("entry" if whole else "text_read" if key in TEXTS else "get", key, **more)

    def ask(self, name: str, key: str, **args: Any) -> None:
        """Make a read request."""
        if self.conn is None:
            return
        request = Request(self.name, 0, name, {"key": key, **args})
        self._prepare(request)
        if is_here(request, self.home):
            request.expected = self.home.model.live(key, self.world.now(self.home).wall_ms)
            request.schema = self.home.model.schema(key)
            documents = {value.document for value in request.expected if value.document is not None}
            request.texts = {document: self.home.model.texts.read(document) for document in documents}
        self._submit(request)

    def forget(self, key: str) -> None:
        """Too much was read since: what was read of this key is no longer remembered, only that it was."""
        if key in self.memory:
            self.memory[key] = Read(None)

    # -- writes --------------------------------------------------------------------------------------------------

    def write(self, subs: list[Sub], **options: Any) -> None:
        """One write, or several as a batch. ``mode`` "seen" becomes what this session really knows of the key."""
        if self.conn is None or not self._may_send(subs):
            return
        if "strict" in options:
            subs[0].follows = ()  # it counts what it names, and nothing else
        informed = len(subs) == 1 and subs[0].key in self.memory
        plain: list[Any] = [[sub.operation, self._arguments(sub)] for sub in subs]
        operation = "text_compact" if subs[0].operation == "compact" else subs[0].operation
        name, args = (operation, plain[0][1]) if len(subs) == 1 else ("batch", {"ops": plain})
        if any("document" in arguments and arguments["update"] is None for _, arguments in plain):
            return
        self._write(name, args, subs, informed, options)

    def _may_send(self, subs: list[Sub]) -> bool:
        """Whether no request of these keys is under way, but for writes of a register or map that one more follows: it
        names them, since it cannot know what they leave.
        """
        busy = [
            request for request in self.pending.values() for sub in request.subs if sub.key in {s.key for s in subs}
        ]
        if not busy:
            return True
        is_plain = len(subs) == 1 and subs[0].operation in FOLLOWING and subs[0].key in self.memory
        if not is_plain or any([sub.operation for sub in request.subs] != [subs[0].operation] for request in busy):
            return False
        subs[0].follows = tuple(request.subs[0] for request in busy)
        subs[0].numbers = tuple(part for request in busy for part in (request.number, 0))
        return True

    def edit(self, key: str, place: int, cut: bool) -> None:
        """Insert a word into the text as it was last read, or cut one out."""
        if self.conn is None or self.is_busy(key):
            return
        known = self.documents.get(key)
        doc: Doc[Text] = self._new_doc() if known is None else known[1]
        text = doc.get("text", type=Text)
        words = str(text).split()
        sub = Sub("text", key, document=None if known is None else decode_dot(known[0]))
        updates: list[bytes] = []
        subscription = doc.observe(lambda event: updates.append(event.update))
        at = place % (len(words) + 1)
        start = sum(len(word) + 1 for word in words[:at])
        with doc.transaction():
            if cut and at < len(words):
                del text[start : start + len(words[at]) + 1]
                sub.cut_words = (words[at],)
            else:
                sub.word = f"w{self.world.next_number()}"
                text.insert(start, sub.word + " ")
        doc.unobserve(subscription)
        if known is not None:
            self.documents[key] = (known[0], doc)
        args = {"key": key, "document": None if known is None else known[0], "update": updates[0]}
        self._write("text_apply", args, [sub], key in self.memory, {})

    def _write(self, name: str, args: dict[str, Any], subs: list[Sub], informed: bool, options: dict[str, Any]) -> None:
        self.number += 1
        is_plain = name == "set" and not options  # as clients send it: the daemon has a short way for that
        args |= {"n": self.number, **({} if is_plain else {"timeout": 5_000}), **options}
        request = Request(self.name, self.number, name, args, subs, informed=informed, node=self.home.name)
        request.is_late = self.home.is_busy
        self._prepare(request)
        if is_here(request, self.home):
            request.must = self.world.oracle.idle(self.home.model, request, self.world.now(self.home).wall_ms)
        request.may_be_full = request.may_wait or any(
            sub.operation == "resolve" or self.home.model.schema(sub.key).policy in ("all", "manual") for sub in subs
        )
        request.is_lower = self._is_lower(subs[0]) if len(subs) == 1 and not request.may_wait else None
        self.world.requests[self.client[:8] + self.number.to_bytes(8, "big")] = request
        self._submit(request)

    def _is_lower(self, sub: Sub) -> bool:
        """Whether a schema refuses a write because it ranks lower than what readers are shown."""
        model = self.home.model
        policy, refuse_lower = model.schema(sub.key)
        ranked = OPERATIONS[sub.operation].ranked
        if not refuse_lower or ranked is None:
            return False
        live = model.live(sub.key, self.world.now(self.home).wall_ms)
        kind = KIND_OF[sub.operation].kind
        for field_, content in ranked(sub).items():
            same = [value for value in live if value.kind == kind and value.sub == field_]
            later = Value(Dot(0, 0, 0), sub.key, kind, 1 << 64, content, confidence=sub.confidence)  # type: ignore[arg-type]
            if same and ranks_lower(policy, best_first(policy, same)[0], later):
                return True
        return False

    def _arguments(self, sub: Sub) -> dict[str, Any]:
        if sub.operation == "schema_set":
            pattern = {"pattern": sub.key.removeprefix(PREFIX)}
            return {**pattern, "remove": True} if sub.content is None else {**pattern, **sub.content}
        operation = OPERATIONS[sub.operation]
        args: dict[str, Any] = {"key": sub.key, **operation.arguments(sub, self.world.next_number)}
        if sub.ttl_ms is not None:
            args["ttl"] = sub.ttl_ms
        if sub.confidence is not None:
            args["confidence"] = sub.confidence
        if operation.has_context:
            self._add_context(sub, args)
        return args

    def _add_context(self, sub: Sub, args: dict[str, Any]) -> None:
        if sub.operation == "set" and sub.mode == "if_absent":
            args["if_absent"] = True
            return
        if sub.numbers:
            args["follows"] = {sub.key: [*sub.numbers]}
        read = self.memory.get(sub.key)
        if read is None:
            sub.mode = "blind"
            return
        if read.version is None:
            sub.mode = "follows" if sub.follows else "long_ago"
            args["seen"] = "?"
            return
        sub.shown, sub.others = read.shown, read.others
        sub.read = read.shown
        if OPERATIONS[sub.operation].is_conditional and sub.mode == "if_version" and not sub.follows:
            args["if_version"] = read.version
            return
        sub.mode = "follows" if sub.follows else "seen"
        args["seen"] = read.version

    # -- replies -------------------------------------------------------------------------------------------------

    def received(self, message: list[Any]) -> None:
        request_id, status, content = message
        if status == 3 and self.keeping is not None:
            self.keeping.horizon.told(*content)
        if status in (2, 3):
            return
        request = self.pending.pop(request_id, None)
        if request is None:
            return
        if self.keeping is not None:
            self.keeping.answered(request, status, content)
        if status == 1:
            self._refused(request, content)
        elif request.is_write:
            self._written(request, content)
        elif request.name == "wait":
            self._check_concern(request)
        else:
            self._was_read(request, content)

    def _refused(self, request: Request, error: dict[str, Any]) -> None:
        self.world.counts[f"refused {error['code']}"] += 1
        require(error["code"] != "internal", "a request failed inside the daemon:", error, request)
        if error["code"] == "timeout" and "w" in request.args and request.change is not None and request.is_write:
            self._is_held_here(request)  # done, and too few others have said that they have it
            self._learn_all(request, error["written"])
            return
        is_done = request.change is not None and request.is_write
        require(not is_done, "refused, and done all the same:", error, request)
        for sub in request.subs:
            self.documents.pop(sub.key, None)
        if error["code"] == "ranks_lower":
            require(request.is_lower is not False, "refused as too low, and is not:", error, request)
        if error["code"] == "too_many_siblings":
            require(request.may_be_full, "refused for its siblings:", error, request)
        if error["code"] == "unresolved":
            self._was_unresolved(request, error["current"])

    def _was_unresolved(self, request: Request, current: Any) -> None:
        """A plain read of several values was refused: the refusal hands over all of them."""
        if request.expected is not None:
            found = groups(request.expected, request.schema.policy)
            is_manual = request.schema.policy == "manual" and len(found) > 1 and found[0][-1].kind in RANKED
            require(is_manual, "refused to read", request.args["key"], "which holds", found)
        request.name = "entry"
        self._was_read(request, current)

    def _written(self, request: Request, result: dict[str, Any]) -> None:
        """A reply to a write: the change is on disk."""
        world = self.world
        world.counts[f"acknowledged {request.name}"] += 1
        point = decode_token(result["token"])["default"][1]
        if request.change is not None:
            require(point == {request.change[0]: request.change[1]}, "the token names another change:", request, result)
            self._is_held_here(request)
            self._check_concern(request)
        else:
            require(
                all(OPERATIONS[sub.operation].may_do_nothing for sub in request.subs),
                "acknowledged, not done:",
                request,
            )
            require(request.must is None or request.may_wait, "acknowledged, not done:", request.must)
        self._learn_all(request, result)

    def _learn_all(self, request: Request, result: dict[str, Any]) -> None:
        """What a write that was done tells its session, unless a later one of the key has told already."""
        self.token, self.last = result["token"], request.change
        results = result["results"] if request.name == "batch" else [result]
        for sub, part in zip(request.subs, results, strict=True):
            before = self.memory.get(sub.key)
            self._learn(request, sub, part)
            if request.number < self.learned.get(sub.key, 0) and before is not None:
                self.memory[sub.key] = before
        self.learned |= {sub.key: max(request.number, self.learned.get(sub.key, 0)) for sub in request.subs}

    def _is_held_here(self, request: Request) -> None:
        is_durable = request.change in self.home.applied[: self.home.durable]
        require(is_durable, "acknowledged before it was on disk:", request)
        self.world.acknowledged.append(request)

    def _check_concern(self, request: Request) -> None:
        """So many nodes as were asked for have it on their disks; a copy of a node is none."""
        wanted = request.args.get("w", 1)
        hosts = [host for host in self.world.hosts if request.change in host.applied[: host.durable]]
        hosts += [host for host in self.world.hosts if self._may_be_taken_in_by(host)]
        holders = {host.original for host in hosts}
        require(len(holders) >= wanted, "acknowledged before", wanted, "nodes had it on disk:", request)
        self.world.counts["acknowledged by several"] += wanted > 1

    def _may_be_taken_in_by(self, host: Host) -> bool:
        """Whether that host had said that it has something, and lost it, and has not spoken to this one since."""
        if not host.went_back or host.node is None:
            return host.went_back
        peer = self.home.running.sync.peers.get(host.running.identity.node)
        has_spoken = peer is not None and peer.link is not None and peer.link.conn > host.conn_before
        return not has_spoken

    def wait_for_others(self, count: int) -> None:
        """Ask to be told when so many nodes have the last write on disk."""
        if self.conn is not None and self.token is not None and self.last is not None:
            args = {"token": self.token, "w": count, "timeout": 500}
            self._submit(Request(self.name, 0, "wait", args, change=self.last))

    def _learn(self, request: Request, sub: Sub, part: dict[str, Any]) -> None:
        if request.change is not None or not (request.may_wait or "again" in request.args):
            check(sub, OPERATIONS[sub.operation], part)
        version = part.get("version")
        match OPERATIONS[sub.operation].learns:
            case Learns.ABSENCE:
                if sub.key in self.memory:
                    self.memory[sub.key] = Read(None)
            case Learns.PART if sub.key in self.memory:
                if version is None:
                    self.forget(sub.key)
                else:
                    self._remember(request, sub, version, sub.others, sub.shown)
            case Learns.CHOICE if request.informed and version is not None:
                self._remember(request, sub, version, sub.others, sub.shown)
            case Learns.VALUE if request.informed and version is not None:
                others = sub.others if sub.mode in ("seen", "if_version", "follows") else frozenset()
                self._remember(request, sub, version, others)
            case Learns.VALUE if sub.operation == "set" and sub.mode != "blind":
                self.memory.pop(sub.key, None)

    def _remember(
        self,
        request: Request,
        sub: Sub,
        version: str,
        others: frozenset[Dot],
        before: frozenset[Dot] = frozenset(),
    ) -> None:
        """A session that has read a key goes on from its own write: it knows that, and of what it had read what is
        left. All writes of a batch to one key may be told what the key comes to in the end.
        """
        told = decode_version(version)
        known, hidden = self.world.dots(sub.key, told)
        written = frozenset(dot for one in request.subs if one.key == sub.key for dot in one.written)
        live = frozenset(value.dot for value in self.home.model.live(sub.key, self.world.now(self.home).wall_ms))
        fits = {*sub.written} & live <= known and (known & live) <= written | before
        require(fits, "the reply's version names", known, "and the session knows", sub)
        require(hidden <= others, "the reply's version covers more than was read:", told, others)
        self.memory[sub.key] = Read(version, known, hidden)

    def _was_read(self, request: Request, result: Any) -> None:
        if request.name not in ("get", "entry", "text_read"):
            return
        key = request.args["key"]
        if request.expected is not None:
            self.told[request.name, key] = (tuple(value.dot for value in request.expected), _comparable(result))
        if result is None:
            require(not request.expected, f"{key} was read as absent and holds", request.expected)
            self.memory[key] = Read(None)
            self.documents.pop(key, None)
            return
        version = decode_version(result["version"])
        known, others = self.world.dots(key, version)
        if version.vector is not None and request.expected is not None:
            known &= {value.dot for value in request.expected}  # it names what is gone, too
        if request.expected is not None:
            self._check_content(request, result, known, others)
        if request.name == "text_read":
            doc = self._new_doc()
            doc.apply_update(result["update"])
            doc.get("text", type=Text)
            self.documents[key] = (result["document"], doc)
        self.memory[key] = Read(result["version"], known, others)

    def _check_content(
        self, request: Request, result: dict[str, Any], known: frozenset[Dot], others: frozenset[Dot]
    ) -> None:
        """What was read is what there is: the winner, and beside it whatever else is alive."""
        assert request.expected is not None
        what = (f"{request.args['key']} was read with {request.name} as", result, "and holds", request.expected)
        live = frozenset(value.dot for value in request.expected)
        require(known | others == live, *what, "the version covers", known, others)
        found = groups(request.expected, request.schema.policy)
        winner, *rest = found
        policy = request.schema.policy if winner[-1].kind in RANKED else "lww"
        if request.name == "entry":
            require(result["policy"] == policy, *what, "the policy is", policy)
            require(not others, *what, "the version covers as not shown", others)
            require(len(result["siblings"]) == len(rest), *what)
            for told, group in zip([result, *result["siblings"]], [winner, *rest], strict=True):
                self._check_shown(request, told, group, what)
            return
        require(policy != "manual" or not rest, *what, "nobody has chosen")
        handed_over = [group for group in found if group[-1].kind == winner[-1].kind] if policy == "all" else [winner]
        dots = {value.dot for group in handed_over for value in group}
        require(known == dots, *what, "the version covers as shown", known)
        if policy == "all":
            all_values = _all(handed_over)
            require(identity(unpack(result["value"])) == identity(all_values), *what, "all of it is", all_values)
        elif request.name == "get":
            require(result["siblings"] == len(rest), *what)
            self._check_shown(request, result, winner, what)
        else:
            document = current(winner)
            require(document is not None and result["document"] == encode_dot(document), *what)

    def _check_shown(self, request: Request, told: dict[str, Any], group: list[Value], what: tuple[Any, ...]) -> None:
        require(told["kind"] == Kind(group[-1].kind).word, *what)
        document = current(group)
        if document is not None:
            text, wanted = unpack(told["value"]), request.texts[document]
            require(self.world.oracle.is_text(document, text, wanted), *what, "it ought to be", wanted)
            return
        require("dot" not in told or told["dot"] == encode_dot(group[-1].dot), *what)
        wanted = shown(group)
        if told.get("field") is not None:
            require(told["field"] == group[-1].sub, *what)
            wanted = group[-1].content
        require(identity(unpack(told["value"])) == identity(wanted), *what, "the value ought to be", wanted)


def _all(handed_over: list[list[Value]]) -> Any:
    """What a plain read of all values gives."""
    if handed_over[0][-1].kind == Kind.REGISTER:
        return [group[-1].content for group in handed_over]
    fields: dict[str, list[Any]] = {}
    for group in handed_over:
        for value in group:
            fields.setdefault(str(value.sub), []).append(value.content)
    return fields


def _comparable(result: Any) -> Any:
    """What all hosts show alike: a text is compared with what its document ought to hold."""
    if not isinstance(result, dict):
        return result
    plain = {**result, "value": None} if result.get("kind") == "text" else dict(result)
    if isinstance(plain.get("siblings"), list):
        plain["siblings"] = [_comparable(sibling) for sibling in plain["siblings"]]
    return plain
