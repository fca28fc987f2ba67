"""A graph that asks a person: ``keep PLACE`` with LangGraph's SqliteSaver or RedisSaver, ``go on`` with CrdtSaver.

``damage PLACE`` makes junk of the newest checkpoint that is kept at a Redis server.
"""

from __future__ import annotations

import operator
import sys
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.redis import RedisSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from redis import Redis

from crdtsync.adapters.langgraph import CrdtSaver

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Fields(TypedDict):
    said: Annotated[list[str], operator.add]


def first(fields: Fields) -> dict[str, list[str]]:
    return {"said": ["and a half"]}


def second(fields: Fields) -> dict[str, list[str]]:
    return {"said": [interrupt("go on?")]}


builder = StateGraph(Fields)
builder.add_sequence([first, second])
builder.add_edge(START, "first")

if sys.argv[1] == "keep":
    theirs: Any = RedisSaver if sys.argv[2].startswith("unix:") else SqliteSaver
    with theirs.from_conn_string(sys.argv[2]) as kept:
        kept.setup()
        builder.compile(checkpointer=kept).invoke({"said": ["one"]}, CONFIG)
elif sys.argv[1] == "damage":
    with Redis.from_url(sys.argv[2]) as server:
        server.json().set(max(server.scan_iter("checkpoint:*")), "$.checkpoint", "junk")
else:
    with CrdtSaver() as saver:
        print(builder.compile(checkpointer=saver).invoke(Command(resume="yes"), CONFIG)["said"])
