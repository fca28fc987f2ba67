"""A conversation with branches, on two hosts: ``begin``, ``branch WHO [NAME]`` on each, ``show``."""

from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

from agents.usage import Usage

from crdtsync.adapters.openai_agents import AdvancedCrdtSession


def said(text: str) -> Any:
    return {"role": "user", "content": text}


async def main(word: str, who: str = "", name: str | None = None) -> None:
    with AdvancedCrdtSession("s") as session:
        if word == "begin":
            await session.add_items([said("one"), said("two")])
        elif word == "branch":
            await session.create_branch_from_turn(2, name)
            await session.add_items([said(who)])
            used: Any = SimpleNamespace(context_wrapper=SimpleNamespace(usage=Usage(requests=1, total_tokens=10)))
            await session.store_run_usage(used)
        else:
            branches = {}
            for branch in await session.list_branches():
                items: list[Any] = await session.get_items(branch_id=branch["branch_id"])
                branches[branch["branch_id"]] = [item["content"] for item in items]
            print(json.dumps([branches, await session.get_session_usage()]))


asyncio.run(main(*sys.argv[1:]))
