"""Histories whose past is read: at tokens, times and a checkpoint, on every node, and then restored.

Three hosts write while their links come and go. After each write its author notes what it is shown. Later every node is
asked what there was at that token, and each node what it showed at that time: it must say the same, or that it is too
old. Then log and history are made short, so that only what the checkpoint holds is kept. Meanwhile nodes make
checkpoints by a policy, and one node comes late, by a snapshot: what it shows of a checkpoint must be all or nothing.
"""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Any

from crdtsync.core.background.retention_caps import Caps
from crdtsync.wire.codec import pack, unpack
from crdtsync.wire.tokens import Version, decode_token, encode_version
from tests.fleet.agent import Agent, Refusal
from tests.fleet.editor import Editor
from tests.fleet.fleet import Fleet, fleet_of
from tests.simulator.model import Broken

KEYS = ("a", "b", "c/1", "c/2", "blob", "counter", "log", "map", "set", "text")
LONG = 300
"""Of a value, how often a number is repeated in it: so it stands on disk alone."""
SHORT = Caps(log_bytes_max=1000, history_age_ms_max=1000)
TURNS_MAX = 500
UNSEEN = "?"
"""The version of one who has seen nothing."""


def patiently(session: Agent, operation: str, **args: Any) -> Any:
    """The answer to a request that takes more than one turn."""
    request = session.send(operation, **args)
    for _ in range(TURNS_MAX):
        session.machine.turn()
        if request in session.replies:
            return session.result(request)
    raise Broken(f"{operation} is not answered")


def shown(session: Agent, at: object = None, **args: Any) -> list[Any]:
    """All that a node shows, with authors and siblings."""
    point = {} if at is None else {"at": at}
    page = patiently(session, "scan", values=True, entries=True, **point, **args)
    assert not page["more"]
    return [{name: field for name, field in item.items() if name != "policy"} for item in page["items"]]


def said(session: Agent, at: object = None) -> dict[str, Any]:
    """What each key says, whoever wrote it: kind, value and siblings; of a blob its bytes."""
    found = {}
    for item in shown(session, at):
        values = [unpack(item["value"]), *(unpack(one["value"]) for one in item["siblings"])]
        if item["kind"] == "blob":
            values = [blob_bytes(session, item["key"], value) for value in values]
        if item["kind"] == "set":
            values = [sorted(values[0])]
        found[item["key"]] = (item["kind"], sorted(map(repr, values)))
    return found


def put_blob(session: Agent, key: str, data: bytes, upload: str, **args: Any) -> Any:
    """One part and the entry; the reply."""
    session.do("blob_write", key=key, upload=upload, part=0, value=data)
    digest = sha256(data).hexdigest()
    return session.do("blob_set", key=key, size=len(data), sha256=digest, media_type=None, upload=upload, **args)


def blob_bytes(session: Agent, key: str, manifest: dict[str, Any]) -> bytes:
    """What a blob of one part holds."""
    try:
        found = patiently(session, "blob_read", key=key, upload=manifest["upload"], part=0)["value"]
    except Refusal as refusal:
        raise Broken(f"{session.machine.name} shows {key} and does not give its bytes: {refusal}") from None
    if sha256(found).hexdigest() != manifest["sha256"]:
        raise Broken(f"{session.machine.name} gives other bytes for {key} than were put")
    return bytes(found)


def write_something(session: Agent, random: Random) -> Any:
    """One write of some kind; its reply."""
    key = random.choice(KEYS)
    number = random.randrange(1000)
    if key == "text" and number > 200:
        editor = Editor(session.machine, "text", session.name)
        length = len(editor.read()) if isinstance(session.get(key), str) else None
        if length is not None or session.get(key) is None:
            return editor.edit(random.randint(0, length or 0), length or 0, str(number))
    if key == "blob" and number > 200:
        return put_blob(session, key, f"{number} ".encode() * LONG, f"{random.getrandbits(96):024x}")
    if key == "counter":
        return session.do("reset", key=key) if number < 100 else session.do("incr", key=key, by=number)
    if key == "log":
        return session.do("trim", key=key, keep=2) if number < 200 else session.append(key, number)
    if key == "set":
        return session.do("discard" if number < 400 else "add", key=key, value=pack(number % 5))
    if key == "map":
        if number < 300:
            return session.do("drop", key=key, field=f"f{number % 3}")
        return session.do("merge", key=key, fields={f"f{number % 3}": pack(number)})
    if number < 200:
        return session.delete(key)
    current = session.ask("get", key=key)
    seen = {"seen": current["version"]} if current and number < 600 else {}
    return session.set(key, f"{number} " * LONG if number > 900 else number, **seen)


def restore(session: Agent, at: object = "checkpoint:before", **args: Any) -> list[dict[str, Any]]:
    """All requests that it takes; their answers."""
    answers: list[dict[str, Any]] = []
    more: dict[str, Any] = {}
    while True:
        session.number += 1
        answers.append(patiently(session, "restore", n=session.number, at=at, **args, **more))
        for key in answers[-1]["blobs"]:
            _put_back(session, at, key, answers[-1]["seen"])
        if answers[-1]["next"] is None:
            return answers
        more = {"start": answers[-1]["next"], "seen": answers[-1]["seen"]}


def _put_back(session: Agent, at: object, key: str, start: str) -> None:
    """As a client does: the blobs of a key, as one who has seen what there was at the start."""
    entry = patiently(session, "entry", key=key, at=at)
    ((_, vector),) = decode_token(start).values()
    seen = encode_version(Version(vector=vector))
    for number, one in enumerate((entry, *entry["siblings"])):
        data = blob_bytes(session, key, unpack(one["value"]))
        put_blob(session, key, data, f"{session.number + number:024x}", seen=seen)
        seen = UNSEEN


def check_shown(session: Agent, at: object, state: list[Any], what: str, *, is_late: bool = False) -> None:
    """It is what was shown then. A node that ``is_late`` cannot know which values each write replaced."""
    found = shown(session, at)
    if is_late:
        found, state = _without_seen(found), _without_seen(state)
    if found != state:
        raise Broken(f"{session.machine.name} shows {found} as of {what}, and it was {state}")


def _without_seen(items: list[Any]) -> list[Any]:
    plain = [{name: field for name, field in item.items() if name not in ("seen", "blind")} for item in items]
    return [item | ({"siblings": _without_seen(item["siblings"])} if "siblings" in item else {}) for item in plain]


def run_cuts(seed: int, steps: int = 50) -> None:
    """Play one history.

    :raises Broken: something of the past is told wrong.
    """
    random = Random(seed)
    with fleet_of("a", "b", "c") as fleet:
        agents = {name: fleet[name].agent(f"agent-{name}") for name in "abc"}
        points: list[tuple[str, str, int, list[Any]]] = []
        agents["a"].do("checkpoint_policy", name="auto", every=1000, keep=3)
        _play(fleet, agents, random, steps, points)
        _meet(fleet)
        maker = random.choice("abc")
        agents[maker].do("checkpoint_set", name="before")
        before, words = shown(agents[maker]), said(agents[maker])
        fleet.sync()
        _play(fleet, agents, random, steps, points)
        _meet(fleet)
        for name, token, time_ms, state in points:
            check_shown(agents[name], time_ms, state, "a time")
            for agent in agents.values():
                check_shown(agent, token, state, "a token")
        for host in fleet.machines.values():
            host.node.retention.caps = SHORT
        for n in range(40):
            agents["a"].set("churn", n)
        fleet.run(30, step_s=5)
        for agent in agents.values():
            try:
                check_shown(agent, "checkpoint:before", before, "a checkpoint")
            except Refusal as refusal:
                raise Broken(f"{agent.machine.name} does not keep the checkpoint: {refusal}") from None
        _check_automatic(agents)
        _check_late(fleet, random, before)
        agent = agents[random.choice("abc")]
        restore(agent)
        fleet.sync()
        for each in agents.values():
            if said(each) != words:
                raise Broken(f"{each.machine.name} shows {said(each)} after a restore of {words}")
        if any(answer["items"] for answer in restore(agent)):
            raise Broken("a restore that was done shows that something is left to do")
        _let_go(fleet, agent)
        for each in agents.values():
            if said(each) != words:
                raise Broken(f"{each.machine.name} shows {said(each)} once no checkpoint holds it, after {words}")


def _check_automatic(agents: dict[str, Agent]) -> None:
    """Those that a policy asked for show the same on every node, and were whole when they were made."""
    for agent in agents.values():
        if agent.machine.node.automatic_checkpoints.failures:
            raise Broken(f"{agent.machine.name} made a checkpoint that is not whole")
    names = [item["name"] for item in agents["a"].ask("checkpoints")["items"]]
    if len(names) < 2:
        raise Broken("no checkpoint was made by the policy")
    for name in names[-2:]:
        at = f"checkpoint:{name}"
        check_shown(agents["b"], at, shown(agents["a"], at), f"the checkpoint {name}")
        check_shown(agents["c"], at, shown(agents["a"], at), f"the checkpoint {name}")


def _let_go(fleet: Fleet, agent: Agent) -> None:
    """Nothing of the past is kept any longer."""
    agent.do("checkpoint_policy", name="auto", remove=True)
    for item in agent.ask("checkpoints")["items"]:
        agent.do("checkpoint_set", name=item["name"], remove=True)
    fleet.run(30, step_s=2)


def _check_late(fleet: Fleet, random: Random, before: list[Any]) -> None:
    """A node that comes now gets a snapshot, which lacks what has gone: it shows all of the checkpoint, or nothing. In
    the end it has all, and gives it to one that knows no other node.
    """
    what = "a checkpoint from before it came"
    for name, other in (("d", random.choice("abc")), ("e", "d")):
        fleet.add(name)
        fleet.link(name, other)
        agent = fleet[name].agent(f"agent-{name}")
        for _ in range(60):
            fleet.run(0.5, step_s=0.1)
            try:
                check_shown(agent, "checkpoint:before", before, what, is_late=True)
            except Refusal as refusal:
                if refusal.code != "too_old":
                    raise
            else:
                break
        else:
            raise Broken(f"{name} came late, and never got what the checkpoint holds")
        if random.random() < 0.5:
            fleet[name].restart()
            agent = fleet[name].agent(f"agent-{name}")
        check_shown(agent, "checkpoint:before", before, what, is_late=True)


def _play(
    fleet: Fleet, agents: dict[str, Agent], random: Random, steps: int, points: list[tuple[str, str, int, list[Any]]]
) -> None:
    for _ in range(steps):
        name = random.choice("abc")
        if random.random() < 0.1 and fleet.wires:
            fleet.wires[random.randrange(len(fleet.wires))].close("cut")
        elif random.random() < 0.1 and not fleet.wires:
            _link(fleet)
        if random.random() < 0.5:
            fleet.sync()
        fleet.pass_time(0.1)
        fleet[name].node.value_cache.clear()
        token = write_something(agents[name], random)["token"]
        points.append((name, token, fleet.now.wall_ms, shown(agents[name])))
        fleet.pass_time(0.01)


def _link(fleet: Fleet) -> None:
    fleet.link("a", "b")
    fleet.link("b", "c")


def _meet(fleet: Fleet) -> None:
    for wire in list(fleet.wires):
        wire.close("cut")
    _link(fleet)
    fleet.run(10, step_s=1)
