"""Files of coding agents' sessions, made worse: what is saved of them is what stands there, and all can be read.

An input is a name of an agent and ten lines, of which one in a thousand is so long that it becomes a blob. Whatever
stands in them, secrets are taken out, and a save and a load give
the same lines again; a reader makes a conversation of them whose calls and results belong together; and that can be
written for each agent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Container, Iterator
from io import BytesIO
from typing import Any, Final

from crdtsync.sessions.agents.agent import Head
from crdtsync.sessions.agents.places import AGENTS
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    USER,
    Call,
    Compaction,
    Conversation,
    Image,
    Result,
    Text,
    Thinking,
    settled,
)
from crdtsync.sessions.redaction.redactor import Redactor
from crdtsync.sessions.saved.pieces import RUN_BYTES_MAX, PieceTree, chain, elements, large, lines_of, with_large
from fuzz.mutation import Mutator

LINES: Final = 10
LARGE_SHARE: Final = 0.001
_HEAD: Final = Head("ses_019a0000000070008000000000", "/srv/api", "2026-11-20T10:00:00.000Z", "[Note of crdtsync to X]")
_SCRAPS: Final = (
    b"\n", b"\r\n", b"\0", b"\xff\xfe", b"ghp_" + b"a1B2c3D4e5F6" * 3, b"PASSWORD=kX93jfLq27Zt", b"[redacted:own:9]",
    b"-----BEGIN PRIVATE KEY-----\n", b'{"type":"compacted"}', b'{"$rewindTo":"x"}', b"[" * 2000, b'"' * 50, b"\\n" * 9,
)  # fmt: skip


def make(rng: random.Random) -> Callable[[], bytes]:
    """A source of inputs."""
    mutator = Mutator(rng)
    genuine = {name: list(AGENTS[name].write(_talk(rng), _HEAD)) for name in AGENTS}

    def next_input() -> bytes:
        name = rng.choice(list(genuine))
        lines = [_worse(rng.choice(genuine[name]), mutator, rng) for _ in range(LINES)]
        return name.encode() + b"\n" + b"".join(lines)

    return next_input


def take(data: bytes) -> None:
    """Save, load, read and write it."""
    name, _, content = data.partition(b"\n")
    clean = list(Redactor().lines(BytesIO(content)))
    assert list(Redactor().lines(clean)) == clean, "a file with marks is what it was"
    tree = PieceTree(_stored(clean[: LINES // 2]))
    tree.add(_stored(clean, tree))
    assert b"".join(lines_of(tree.file())) == b"".join(clean), "a line is lost"
    agent = AGENTS[name.decode()]
    agent.described(clean)
    conversation = settled(agent.read(clean))
    pending: list[str] = []
    for item in conversation.items:
        if isinstance(item, Call):
            pending.append(item.id)
        elif isinstance(item, Result):
            pending.remove(item.id)
        else:
            assert not pending, "a call has lost its result"
    for other in AGENTS.values():
        for line in other.write(other.taken(conversation, _HEAD.cwd, is_own=other is agent), _HEAD):
            assert line


def _stored(lines: list[bytes], known: Container[bytes] = ()) -> Iterator[Any]:
    """The elements of a log, with large lines out of their blobs."""
    for element, run in elements(chain(lines), known=known):
        is_large = isinstance(element[1], int)
        yield with_large(element, large(run[0].content)) if is_large else element


def _worse(line: bytes, mutator: Mutator, rng: random.Random) -> bytes:
    chance = rng.random()
    if chance < LARGE_SHARE:
        scrap = rng.choice((*_SCRAPS, line, b"iVBORw0KGgo", b"eyJ", rng.randbytes(1000))).replace(b"\n", b"n")
        return line[:-2] + scrap * (RUN_BYTES_MAX // len(scrap)) + line[-2:]
    if chance < 0.15:
        return line
    if chance < 0.3:
        at = rng.randrange(len(line))
        return line[:at] + rng.choice(_SCRAPS) + line[at + rng.choice((0, 1, 9)) :]
    if chance < 0.4:
        return mutator.octets(line)
    try:
        tree = mutator.tree(json.loads(line.lstrip(b",")), rng.choice((1, 1, 2, 5)))
        return json.dumps(tree, default=repr).encode("utf-8", "replace") + b"\n"
    except (ValueError, TypeError, RecursionError):
        return line[: rng.randrange(len(line))]


def _talk(rng: random.Random) -> Conversation:
    image = Image("image/png", "iVBORw0KGgo=")
    items: list[Any] = []
    for number in range(20):
        items += [Text(USER, f"look {number}", images=(image,) * rng.randrange(2)), Thinking("why")]
        items += [Text(ASSISTANT, "I look.")]
        items += [Call(f"c{number}", rng.choice(("Bash", "Read", "mcp__x__y")), {"command": "ls", "path": "/x/a.py"})]
        items += [Result(f"c{number}", "one\ntwo", (image,) * rng.randrange(2), is_error=rng.random() < 0.2)]
        items += [Compaction("before")] * (rng.random() < 0.1)
    return Conversation(items)
