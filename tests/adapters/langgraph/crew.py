"""The example that everybody knows: a researcher, an analyst and a writer, whose state a RedisSaver keeps.

Each run goes on with the thread of the one before.
"""

from __future__ import annotations

import json
import operator
import sys
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.redis import RedisSaver
from langgraph.graph import END, START, StateGraph


class Crew(TypedDict):
    topic: str
    findings: Annotated[list[dict[str, Any]], operator.add]
    messages: Annotated[list[BaseMessage], operator.add]
    action_items: Annotated[list[str], operator.add]
    report: str


def researcher(state: Crew) -> dict[str, Any]:
    finding = {"source": "logs", "text": f"the {state['topic']} is cold after a restart", "confidence": 0.9}
    return {"findings": [finding], "messages": [AIMessage(f"found {len(state['findings']) + 1}", name="researcher")]}


def analyst(state: Crew) -> dict[str, Any]:
    newest = state["findings"][-1]
    return {
        "action_items": [f"warm the {state['topic']}"],
        "messages": [AIMessage(f"{newest['text']}: {newest['confidence']}", name="analyst")],
    }


def writer(state: Crew) -> dict[str, Any]:
    report = "; ".join([*(each["text"] for each in state["findings"]), *state["action_items"]])
    return {"report": report, "messages": [AIMessage("done", name="writer")]}


builder = StateGraph(Crew)
for name, node in (("researcher", researcher), ("analyst", analyst), ("writer", writer)):
    builder.add_node(name, node)
builder.add_edge(START, "researcher")
builder.add_edge("researcher", "analyst")
builder.add_edge("analyst", "writer")
builder.add_edge("writer", END)

with RedisSaver.from_conn_string(sys.argv[1]) as checkpointer:
    checkpointer.setup()
    graph = builder.compile(checkpointer=checkpointer)
    config: Any = {"configurable": {"thread_id": "crew"}}
    result = graph.invoke({"topic": sys.argv[2], "messages": [HumanMessage(f"look at the {sys.argv[2]}")]}, config)
    history = [(state.next, state.values.get("action_items")) for state in graph.get_state_history(config)]
    shown = {**result, "messages": [(each.type, each.name, each.content) for each in result["messages"]]}
    print(json.dumps([shown, history]))
