"""Fake agents: clients of the protocol that remember what they read, write with it, retry, and move between hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pycrdt import Doc, Text

from crdtsync.causality import Dot, covers
from crdtsync.core.node import AgentClosed, AgentFlow, AgentFrame, AgentOpened
from crdtsync.wire.change import Kind
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.tokens import decode_dot, decode_token, decode_version, encode_dot
from tests.property.oracle import Sub, Value, require

if TYPE_CHECKING:
    from tests.property.world import Host, World

REGISTERS = ("r/1", "r/2", "r/3")
LOGS = ("log/1", "log/2")
TEXTS = ("text/1", "text/2")
MIXED = "mixed"
KEYS = (*REGISTERS, *LOGS, *TEXTS, MIXED)


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
    informed: bool = False
    node: str = ""

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
    """One session. At most one request per key is under way, as the oracle has to know what was read before."""

    def __init__(self, world: World, name: str, home: Host) -> None:
        self.world = world
        self.name = name
        self.home = home
        self.client = b""
        self.conn: int | None = None
        self.request_last = 0
        self.number = 0
        self.pending: dict[int, Request] = {}
        self.memory: dict[str, Read] = {}
        self.documents: dict[str, tuple[str, Doc[Text]]] = {}
        self.token: str | None = None
        world.agents.append(self)
        self._new_client()
        if home.node is not None:
            self.attach()

    def _new_client(self) -> None:
        self.client = self.world.random.randbytes(16)
        self.number = 0

    # -- connections ---------------------------------------------------------------------------------------------

    def attach(self) -> None:
        """Connect, and ask again for what was not answered."""
        self.conn = self.world.new_conn()
        self.home.agents[self.conn] = self
        self.world.step(self.home, AgentOpened(self.conn, 1000, 1))
        self.request_last = 0
        unanswered = [request for request in self.pending.values() if request.is_write]
        self.pending = {}
        self._send("hello", {"protocol": 1, "client": self.client, "agent": self.name})
        for request in unanswered:
            request.args["again"] = True
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

    def move(self, home: Host) -> None:
        """Go on at another host: the outcome of what was not answered is unknown."""
        if self.conn is not None and self.home.node is not None:
            self.home.agents.pop(self.conn, None)
            self.world.step(self.home, AgentClosed(self.conn))
        self.conn = None
        self.pending = {}
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
        self._send(request.name, request.args)

    def is_busy(self, key: str) -> bool:
        return any(sub.key == key for request in self.pending.values() for sub in request.subs)

    # -- reads ---------------------------------------------------------------------------------------------------

    def read(self, key: str, whole: bool = False, after: bool = False) -> None:
        """Read a key: its winner, or the entry with all siblings (``whole``); a text, as a replica."""
        if self.conn is None:
            return
        args: dict[str, Any] = {"key": key}
        if after and self.token is not None:
            args |= {"after": self.token, "timeout": 60_000}
        name = "text_read" if key in TEXTS and not whole else "entry" if whole else "get"
        request = Request(self.name, 0, name, args)
        if "after" not in args or covers(self.home.replica.vector, decode_token(self.token)["default"][1]):
            request.expected = self.home.model.live(key, self.world.now(self.home).wall_ms)
        self._submit(request)

    def forget(self, key: str) -> None:
        """Too much was read since: what was read of this key is no longer remembered, only that it was."""
        if key in self.memory:
            self.memory[key] = Read(None)

    # -- writes --------------------------------------------------------------------------------------------------

    def write(self, subs: list[Sub], **options: Any) -> None:
        """One write, or several as a batch. ``mode`` "seen" becomes what this session really knows of the key."""
        if self.conn is None or any(self.is_busy(sub.key) for sub in subs):
            return
        informed = len(subs) == 1 and subs[0].key in self.memory
        plain: list[Any] = [[sub.operation, self._arguments(sub)] for sub in subs]
        name, args = (subs[0].operation, plain[0][1]) if len(subs) == 1 else ("batch", {"ops": plain})
        if any("document" in arguments and arguments["update"] is None for _, arguments in plain):
            return
        self._write(name, args, subs, informed, options)

    def edit(self, key: str, place: int, cut: bool) -> None:
        """Insert a word into the text as it was last read, or cut one out."""
        if self.conn is None or self.is_busy(key):
            return
        known = self.documents.get(key)
        doc: Doc[Text] = Doc() if known is None else known[1]
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
        args |= {"n": self.number, "timeout": 5_000, **options}
        request = Request(self.name, self.number, name, args, subs, informed=informed, node=self.home.name)
        self.world.requests[self.client[:8] + self.number.to_bytes(8, "big")] = request
        self._submit(request)

    def _arguments(self, sub: Sub) -> dict[str, Any]:
        args: dict[str, Any] = {"key": sub.key}
        if sub.operation in ("set", "append"):
            sub.content = self.world.next_number()
            args["value"] = pack(sub.content)
        if sub.ttl_ms is not None:
            args["ttl"] = sub.ttl_ms
        if sub.operation == "trim":
            args["keep"] = sub.keep
        if sub.operation in ("set", "delete", "append"):
            self._add_context(sub, args)
        return args

    def _add_context(self, sub: Sub, args: dict[str, Any]) -> None:
        if sub.operation == "set" and sub.mode == "if_absent":
            args["if_absent"] = True
            return
        read = self.memory.get(sub.key)
        if read is None:
            sub.mode = "blind"
            return
        if read.version is None:
            sub.mode = "long_ago"
            args["seen"] = "?"
            return
        sub.shown, sub.others = read.shown, read.others
        if sub.operation == "set" and sub.mode == "if_version":
            args["if_version"] = read.version
            return
        sub.mode = "seen"
        args["seen"] = read.version

    # -- replies -------------------------------------------------------------------------------------------------

    def received(self, message: list[Any]) -> None:
        request_id, status, content = message
        if status == 2:
            return
        request = self.pending.pop(request_id, None)
        if request is None:
            return
        if status == 1:
            self._refused(request, content)
        elif request.is_write:
            self._written(request, content)
        else:
            self._was_read(request, content)

    def _refused(self, request: Request, error: dict[str, Any]) -> None:
        self.world.counts[f"refused {error['code']}"] += 1
        require(error["code"] != "internal", "a request failed inside the daemon:", error, request)
        require(request.change is None, "refused, and done all the same:", error, request)
        for sub in request.subs:
            self.documents.pop(sub.key, None)

    def _written(self, request: Request, result: dict[str, Any]) -> None:
        """A reply to a write: the change is on disk."""
        world = self.world
        world.counts[f"acknowledged {request.name}"] += 1
        point = decode_token(result["token"])["default"][1]
        if request.change is not None:
            require(point == {request.change[0]: request.change[1]}, "the token names another change:", request, result)
            require(
                request.change in self.home.applied[: self.home.durable], "acknowledged before it was on disk:", request
            )
            world.acknowledged.append(request)
        else:
            require(
                all(sub.operation in ("delete", "trim") for sub in request.subs), "acknowledged, not done:", request
            )
        self.token = result["token"]
        results = result["results"] if request.name == "batch" else [result]
        for sub, part in zip(request.subs, results, strict=True):
            self._learn(request, sub, part)

    def _learn(self, request: Request, sub: Sub, part: dict[str, Any]) -> None:
        if sub.operation == "set":
            if "replaced" in part:
                told = part["replaced"] and decode_dot(part["replaced"]["dot"])
                require(
                    told == sub.replaced, "a blind write says that it replaced", told, "and did replace", sub.replaced
                )
            if request.informed:
                others = sub.others if sub.mode in ("seen", "if_version") else frozenset()
                self._remember(sub, part["version"], others)
            elif sub.mode != "blind":
                self.memory.pop(sub.key, None)
        elif sub.operation == "delete":
            if sub.key in self.memory:
                self.memory[sub.key] = Read(None)
        elif sub.operation == "append" and part.get("version") is not None:
            self._remember(sub, part["version"], sub.others, sub.shown)
        elif sub.operation == "text" and request.informed:
            self._remember(sub, part["version"], frozenset())

    def _remember(self, sub: Sub, version: str, others: frozenset[Dot], before: frozenset[Dot] = frozenset()) -> None:
        """A session that has read a key goes on from its own write."""
        assert sub.written is not None
        shown = before | {sub.written}
        told = decode_version(version)
        require(frozenset(told.dots) == shown, "the reply's version names", told.dots, "and the session knows", shown)
        require(frozenset(told.others) <= others, "the reply's version covers more than was read:", told, others)
        self.memory[sub.key] = Read(version, shown, frozenset(told.others))

    def _was_read(self, request: Request, result: Any) -> None:
        if request.name not in ("get", "entry", "text_read"):
            return
        key = request.args["key"]
        if result is None:
            require(not request.expected, f"{key} was read as absent and holds", request.expected)
            self.memory[key] = Read(None)
            self.documents.pop(key, None)
            return
        version = decode_version(result["version"])
        shown, others = frozenset(version.dots), frozenset(version.others)
        if request.expected is not None:
            require(
                shown | others == {v.dot for v in request.expected},
                f"{key} was read as",
                shown,
                others,
                request.expected,
            )
            self._check_content(request, result, shown)
        if request.name == "text_read":
            doc: Doc[Text] = Doc()
            doc.apply_update(result["update"])
            doc.get("text", type=Text)
            self.documents[key] = (result["document"], doc)
        self.memory[key] = Read(result["version"], shown, others)

    def _check_content(self, request: Request, result: Any, shown: frozenset[Dot]) -> None:
        assert request.expected
        winner = request.expected[-1]
        if request.name == "entry":
            told = {result["dot"], *(sibling["dot"] for sibling in result["siblings"])}
            kinds = {value.kind for value in request.expected}
            if kinds == {Kind.REGISTER}:
                require(told == {encode_dot(v.dot) for v in request.expected}, "entry tells", told, request.expected)
        elif request.name == "get" and winner.kind == Kind.REGISTER:
            require(shown == {winner.dot} and unpack(result["value"]) == winner.content, "get tells", result, winner)
        elif request.name == "get" and winner.kind == Kind.LOG:
            logged = [value.content for value in request.expected if value.kind == Kind.LOG]
            require(unpack(result["value"]) == logged, "the log reads", result, logged)


class Watcher:
    """Watches everything at one host, goes on after each broken connection, and keeps what it is told of each key."""

    def __init__(self, world: World, home: Host) -> None:
        self.world = world
        self.home = home
        self.conn: int | None = None
        self.pending: dict[int, Request] = {}
        self.token: str | None = None
        self.in_snapshot = True
        self.mirror: dict[str, dict[str, Any]] = {}
        world.watchers.append(self)
        self.attach()

    def attach(self) -> None:
        """Connect, and go on after the last token; a snapshot that was cut off begins anew."""
        if self.in_snapshot:
            self.token = None
            self.mirror.clear()
        self.conn = self.world.new_conn()
        self.home.agents[self.conn] = self
        client = self.world.random.randbytes(16)
        hello = {"protocol": 1, "client": client, "agent": "watcher"}
        watch = {"prefix": ""} if self.token is None else {"prefix": "", "after": self.token}
        self.world.step(self.home, AgentOpened(self.conn, 1000, 1))
        for number, (name, args) in enumerate((("hello", hello), ("watch", watch)), 1):
            self.world.step(self.home, AgentFrame(self.conn, pack([number, name, args])))

    def lost(self) -> None:
        self.conn = None

    def flow(self, blocked: bool) -> None:
        if self.conn is not None and self.home.node is not None:
            self.world.step(self.home, AgentFlow(self.conn, blocked))

    def reconnect(self) -> None:
        if self.conn is not None and self.home.node is not None:
            self.home.agents.pop(self.conn, None)
            self.world.step(self.home, AgentClosed(self.conn))
            self.attach()

    def received(self, message: list[Any]) -> None:
        _, status, content = message
        require(status != 1, "a watch failed:", content)
        for event in content if status == 2 else ():
            self.world.counts[f"told {event['event']}"] += 1
            self._note(event)

    def _note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "batch":
                for part in event["events"]:
                    self._note(part)
            case "reset":
                self.mirror.clear()
                self.in_snapshot = True
            case "snapshot" if event["key"] is None:
                self.in_snapshot = False
            case "delete":
                self.mirror.pop(event["key"], None)
            case "set" | "conflict" | "snapshot":
                self.mirror[event["key"]] = event
        if event.get("token") is not None and not self.in_snapshot:
            self.token = event["token"]

    def check(self) -> None:
        """What was told last of each key is what is there. Keys that may have expired are left out."""
        model = self.home.model
        changes = self.world.oracle.changes.values()
        expiring = {effect.key for known in changes for effect in known.effects if effect.added and effect.added.ttl_ms}
        told, held = {*self.mirror} - expiring, {*model.keys} - expiring
        require(told == held, f"a watcher at {self.home.name} was told of", told, "and there is", held)
        for key in held:
            (value, *others) = model.held(key).values()
            if not others and value.kind == Kind.REGISTER:
                event = self.mirror[key]
                require(event["value"] == pack(value.content), f"of {key} a watcher was told", event, "and not", value)
