"""One thread, run by several hosts at once: ``begin``, ``branch NAME`` on each, ``show``, ``merge``.

With ``delta`` at the end its steps are a ``DeltaChannel``, of which a checkpoint stores what was added alone.
"""

from __future__ import annotations

import json
import operator
import sys
from typing import Annotated, Any, TypedDict

from langgraph.channels import DeltaChannel
from langgraph.graph import START, StateGraph

from crdtsync.adapters.langgraph import CrdtSaver


class Steps(TypedDict):
    steps: Annotated[list[str], operator.add]


class Deltas(TypedDict):
    steps: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(x for each in new for x in each)])]


is_delta = sys.argv[-1] == "delta"
name = sys.argv[2] if len(sys.argv) > 2 + is_delta else "nobody"
builder = StateGraph(Deltas if is_delta else Steps)
builder.add_node("done", lambda state: {"steps": [f"done on {name}"]})
builder.add_edge(START, "done")
config: Any = {"configurable": {"thread_id": "shared"}}

with CrdtSaver() as saver:
    graph = builder.compile(checkpointer=saver)
    if sys.argv[1] == "begin":
        graph.update_state(config, {"steps": ["begun"]}, as_node="__start__")
    elif sys.argv[1] == "branch":
        graph.invoke({"steps": [f"asked on {name}"]}, config)
    elif sys.argv[1] == "merge":
        for branch in saver.branches(config)[1:]:
            saver.merge_branch(graph, branch)
        print(json.dumps([graph.get_state(config).values["steps"], len(saver.branches(config))]))
    else:
        print(sorted(str(state.values.get("steps")) for state in graph.get_state_history(config)))
        for state in graph.get_state_history(config):
            assert graph.get_state(state.config).values == state.values
