"""Lines of one agent as a conversation, and as lines of another: nothing is lost in silence, whatever the lines are."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from crdtsync.context import tokenizer
from crdtsync.errors import InvalidRequest
from crdtsync.sessions.agents.agent import CodingAgent, Head
from crdtsync.sessions.agents.places import AGENTS
from crdtsync.sessions.conversation import fit
from crdtsync.sessions.conversation.record import (
    ASSISTANT,
    CONTEXT,
    USER,
    Call,
    Compaction,
    Conversation,
    Image,
    Item,
    Own,
    Result,
    Text,
    Thinking,
    settled,
)
from crdtsync.sessions.conversation.show import edited, lines_of, logged, shown

HEAD = Head("5f6f4464-0000-5000-8000-000000000000", "/home/bob/api", "2026-11-20T10:00:00.000Z", "NOTE")
CLAUDE, CODEX, GEMINI, OPENCODE = AGENTS.values()
PNG = Image("image/png", "iVBORw0KGgo=")


def jsonl(*records: dict[str, Any]) -> list[bytes]:
    return [json.dumps(record).encode() + b"\n" for record in records]


def claude(*messages: tuple[str, Any], start: str | None = None) -> list[dict[str, Any]]:
    """A chain of messages."""
    found: list[dict[str, Any]] = []
    for number, (role, content) in enumerate(messages):
        parent = found[-1]["uuid"] if found else start
        uuid = f"{start or 'u'}{number}"
        found.append({"type": role, "uuid": uuid, "parentUuid": parent, "message": {"role": role, "content": content}})
    return found


def said(conversation: Conversation) -> list[str]:
    return [item.text for item in conversation.items if isinstance(item, Text | Result)]


def taken(conversation: Conversation, agent: CodingAgent, *, is_own: bool = False) -> Conversation:
    return agent.taken(conversation, HEAD.cwd, is_own=is_own)


TALK = Conversation(
    [
        Text(USER, "look at the picture", images=(PNG,)),
        Thinking("it is a cat"),
        Text(ASSISTANT, "I look."),
        Call("a", "Bash", {"command": "ls"}),
        Call("b", "Read", {"file_path": "/x"}),
        Result("a", "one"),
        Result("b", "two", (PNG,)),
        Compaction("a cat was seen"),
        Text(USER, "and now?"),
        Text(ASSISTANT, "Done."),
    ]
)


@pytest.mark.parametrize("agent", AGENTS.values(), ids=list(AGENTS))
def test_what_is_written_reads_as_what_it_was(agent: CodingAgent):
    found = agent.read(agent.write(TALK, HEAD))
    texts = said(found)
    for word in ("look at the picture", "I look.", "one", "two", "and now?", "Done."):
        assert texts.count(word) == 1
    assert "NOTE" in texts[0]
    assert "[thinking] it is a cat" in texts
    assert any("a cat was seen" in text for text in texts)
    assert [item.images for item in found.items if isinstance(item, Text | Result) and item.images] == [(PNG,), (PNG,)]
    ids = [item.id for item in found.items if isinstance(item, Call | Result)]
    assert ids == (["a", "a", "b", "b"] if agent is OPENCODE else ["a", "b", "a", "b"])
    assert not found.lost


def test_the_shell_has_the_name_that_the_reader_knows():
    (call,) = [json.loads(line)["payload"] for line in CODEX.write(taken(TALK, CODEX), HEAD) if b'"ls' in line]
    assert (call["name"], json.loads(call["arguments"])) == ("exec_command", {"cmd": "ls"})
    arguments = {"command": ["bash", "-lc", "ls -l"], "workdir": "/srv/my api", "timeout_ms": 5, "description": "look"}
    found = taken(Conversation([Call("1", "shell", arguments), Result("1", "x")]), CLAUDE)
    assert found.items[0] == Call("1", "Bash", {"command": "cd '/srv/my api' && ls -l"})
    assert found.losses() == [
        "1 × description of a command, 1 × timeout_ms of a command: Bash of Claude Code is shown the command alone"
    ]
    arguments = {"command": "ls", "workdir": HEAD.cwd}
    assert taken(Conversation([Call("1", "shell", arguments)]), CODEX).items == [
        Call("1", "exec_command", {"cmd": "ls"})
    ]
    talk = Conversation([Call("1", "mcp__crdtsync__view", {}), Result("1", "x")])
    assert b'"name": "view"' in b"".join(CODEX.write(talk, HEAD))
    assert b'"namespace": "mcp__crdtsync"' in b"".join(CODEX.write(talk, HEAD))


def test_no_call_loses_its_result_and_no_result_its_call():
    talk = Conversation(
        [Call("a", "x", {}), Text(ASSISTANT, "wait"), Result("a", "late"), Call("a", "x", {}), Result("q", "orphan")]
    )
    made = settled(talk)
    kinds = [(type(item).__name__, getattr(item, "id", "")) for item in made.items]
    assert kinds == [("Call", "a"), ("Result", "a"), ("Text", ""), ("Call", "a-2"), ("Result", "a-2"), ("Text", "")]
    assert "late" in said(made)
    assert "interrupted" in said(made)[2]
    assert "orphan" in said(made)[3]
    assert len(taken(made, CODEX).lost) == 2


def test_claude_code_follows_the_chain_from_the_last_message():
    main = claude(("user", "start"), ("assistant", [{"type": "text", "text": "one"}]))
    aside = claude(("user", "aside"), start="u0")
    on = claude(("user", "on"), start="u1")
    assert said(CLAUDE.read(jsonl(*main, *aside, *on))) == ["start", "one", "on"]
    named = {"type": "last-prompt", "leafUuid": aside[-1]["uuid"]}
    found = CLAUDE.read(jsonl(*main, *aside, *on, named))
    assert said(found) == ["start", "aside"]
    assert sum(found.lost.values()) == 2
    loop = [{**main[0], "parentUuid": "u1"}, main[1]]
    assert said(CLAUDE.read(jsonl(*loop))) == ["start", "one"]


def test_claude_code_follows_the_chain_through_records_that_nobody_said():
    main = claude(("user", "start"), ("assistant", [{"type": "text", "text": "one"}]))
    between = {"type": "progress", "uuid": "p", "parentUuid": "u1", "data": {"type": "hook_progress"}}
    found = CLAUDE.read(jsonl(*main, between, *claude(("user", "on"), start="p"), {**between, "uuid": "q"}))
    assert said(found) == ["start", "one", "on"]
    assert not found.lost


def test_claude_code_follows_the_chain_through_lines_that_are_no_json_or_no_text():
    records = claude(("user", "start"), ("user", "of X"), ("user", "deep"), ("user", "on"))
    one, two, three, four = jsonl(*records)
    three = three.replace(b'"deep"', b"[" * 5000 + b"]" * 5000)
    found = CLAUDE.read([one, two.replace(b"of X", b"of \xff"), b"garbage\n", b"\n", three, four])
    assert said(found) == ["start", "of \ufffd", "on"]
    assert found.losses() == ["2 × line that cannot be read: it is no JSON, or nested too deep"]


def test_claude_code_carries_all_calls_that_were_made_at_once():
    def called(uuid: str, parent: str) -> dict[str, Any]:
        block = {"type": "tool_use", "id": f"call-{uuid}", "name": "Bash", "input": {}}
        return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": {"id": "m", "content": [block]}}

    def answered(parent: str) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": f"call-{parent}", "content": f"of {parent}"}
        return {"type": "user", "uuid": f"r-{parent}", "parentUuid": parent, "message": {"content": [block]}}

    calls = [called("a", "u0"), called("b", "a"), called("c", "a")]
    records = [*claude(("user", "start")), *calls, *map(answered, "abc"), *claude(("user", "on"), start="r-b")]
    found = CLAUDE.read(jsonl(*records))
    assert sorted(said(found)[1:-1]) == ["of a", "of b", "of c"]
    assert sorted(item.id for item in found.items if isinstance(item, Call)) == ["call-a", "call-b", "call-c"]
    assert not found.lost


def test_claude_code_after_a_compaction_sees_the_summary_what_was_preserved_and_the_rest():
    old = claude(("user", "old"), ("assistant", [{"type": "text", "text": "kept"}]))
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None,
                "compactMetadata": {"preservedMessages": {"uuids": ["u1"]}}}  # fmt: skip
    summary = {"type": "user", "uuid": "s", "parentUuid": "b", "isCompactSummary": True, "message": {"content": "sum"}}
    found = CLAUDE.read(jsonl(*old, boundary, summary, *claude(("user", "new"), start="s")))
    assert isinstance(found.items[0], Compaction)
    assert found.items[0].summary == "sum"
    assert said(found) == ["kept", "new"]


def test_what_is_the_harness_own_is_named_and_not_carried():
    records = claude(("user", "hi"), ("assistant", [{"type": "thinking", "thinking": "", "signature": "x"}]))
    records.append({"type": "attachment", "uuid": "x", "parentUuid": "u1", "attachment": {"type": "skill_listing"}})
    error = {"role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": "limit"}]}
    records.append({"type": "assistant", "uuid": "y", "parentUuid": "x", "message": error})
    found = taken(CLAUDE.read(jsonl(*records)), CODEX)
    assert said(found) == ["hi"]
    assert {what for what, _ in found.lost} == {"thinking", "skill_listing of the harness",
                                               "error message of the harness"}  # fmt: skip
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]},
        {"type": "reasoning", "encrypted_content": "x"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    ]
    found = CODEX.read(jsonl(*({"type": "response_item", "payload": item} for item in items)))
    assert said(found) == ["hi"]
    assert len(taken(found, CLAUDE).lost) == 3


def test_a_branch_gives_an_agent_its_own_parts_back_and_another_one_is_told_of_them():
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0" * 500}}
    asked = [{"type": "text", "text": "read"}, pdf]
    answered = [
        {"type": "thinking", "thinking": "a long one", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "c2Vh"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "x"}},
    ]
    result = [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "of x"}, pdf]}]
    records = claude(("user", asked), ("assistant", answered), ("user", result))
    found = settled(CLAUDE.read(jsonl(*records)))
    branched = CLAUDE.write(taken(found, CLAUDE, is_own=True), replace(HEAD, model="m"))
    back = [json.loads(one)["message"] for one in branched][1:]
    assert [one["content"] for one in back] == [asked, *([one] for one in answered), result]
    assert [one.get("model") for one in back] == [None, "m", "m", "m", "m", None]
    later = claude(("assistant", [{"type": "text", "text": "another model"}]), start=records[-1]["uuid"])
    later[0]["message"]["model"] = "n"
    assert taken(CLAUDE.read(jsonl(*records, *later)), CLAUDE, is_own=True).items[1] == Thinking("a long one")
    assert not found.lost
    told = taken(found, CODEX)
    assert said(told) == [
        "read\n[document, application/pdf] not carried",
        '[server_tool_use] {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}',
        "of x\n[document, application/pdf] not carried",
    ]
    assert set(told.losses()) == {
        "2 × document, 1 × server_tool_use: no other agent has it: a text tells of it",
        "1 × thinking: its provider keeps it sealed: no other model can read it",
    }
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}, {"type": "input_file"}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "c"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
        {"type": "web_search_call", "action": {"query": "x"}},
    ]
    found = settled(CODEX.read(jsonl(*({"type": "response_item", "payload": item} for item in items))))
    written = [json.loads(line) for line in CODEX.write(taken(found, CODEX, is_own=True), HEAD)]
    assert [one["payload"] for one in written if one["type"] == "response_item"][1:] == items
    cut_off = settled(CODEX.read(jsonl(*({"type": "response_item", "payload": item} for item in items[:3]))))
    written = [json.loads(line) for line in CODEX.write(taken(cut_off, CODEX, is_own=True), HEAD)]
    answer = [one["payload"] for one in written if one["type"] == "response_item"][-1]
    assert (answer["type"], answer["call_id"]) == ("custom_tool_call_output", "c")
    assert set(taken(found, CLAUDE).losses()) == {
        "1 × input_file, 1 × web_search_call: no other agent has it: a text tells of it",
        "1 × thinking: its provider keeps it sealed: no other model can read it",
    }


@pytest.mark.parametrize("agent", [GEMINI, OPENCODE], ids=["gemini-cli", "opencode"])
def test_gemini_and_opencode_get_their_thoughts_and_files_back(agent: CodingAgent):
    thought = {"subject": "Why", "description": "it is"} if agent is GEMINI else {"type": "reasoning", "text": "Why"}
    file: dict[str, Any] = {"inlineData": {"mimeType": "application/pdf", "data": "JVBE"}}
    if agent is OPENCODE:
        file = {"type": "file", "mime": "application/pdf", "url": "data:x"}
    text = {"text": "read"} if agent is GEMINI else {"type": "text", "text": "read"}
    asked = Text(USER, "read", own=Own((text, file), ("file",)))
    talk = Conversation([asked, Thinking("Why", own=Own((thought,))), Text(ASSISTANT, "ok")])
    found = settled(agent.read(agent.write(talk, HEAD)))
    assert [type(item).__name__ for item in found.items[-3:]] == ["Text", "Thinking", "Text"]
    assert [item.own is None for item in found.items[-3:] if isinstance(item, Text | Thinking)] == [False, False, True]
    assert said(taken(found, CODEX))[-2].startswith("read\n[")
    assert len(taken(found, CODEX).losses()) == 1


def test_codex_after_a_compaction_and_in_a_fork():
    def item(text: str, ordinal: int) -> dict[str, Any]:
        content = [{"type": "input_text", "text": text}]
        payload = {"type": "message", "role": "user", "content": content}
        return {"type": "response_item", "ordinal": ordinal, "payload": payload}

    history = [item("kept", 0)["payload"]]
    compacted = {"type": "compacted", "payload": {"message": "sum", "replacement_history": history}}
    found = CODEX.read(jsonl(item("gone", 0), compacted, item("new", 2)))
    assert said(found) == ["kept", "new"]
    assert found.lost.total() == 1
    search = {"type": "response_item", "payload": {"type": "web_search_call"}}
    found = CODEX.read(jsonl(item("asked", 0), search, {"type": "compacted", "payload": {"message": "sum"}}))
    assert [getattr(one, "text", "") or getattr(one, "summary", "") for one in found.items] == ["asked", "sum"]
    assert found.losses() == ["1 × item before a compaction: the agent no longer saw it either"]
    history.append({"type": "compaction", "encrypted_content": "gAAAA"})
    sealed = {"type": "compacted", "payload": {"message": "", "replacement_history": history}}
    snapshot = {"type": "response_item", "payload": {"type": "ghost_snapshot", "ghost_commit": {}}}
    found = CODEX.read(jsonl(item("before", 0), snapshot, sealed, item("new", 2)))
    assert said(found) == ["before", "new"]
    assert found.lost.total() == 2
    base = {"thread_id": "parent", "end_ordinal_exclusive": 2}
    fork = jsonl({"type": "session_meta", "payload": {"history_base": base}}, item("mine", 0))
    parents = {"parent": jsonl(item("first", 0), item("second", 1), item("third", 2))}
    assert said(CODEX.read(fork, parents)) == ["first", "second", "mine"]


def test_codex_of_2025_wrote_bare_items():
    items: list[dict[str, Any]] = [
        {"id": "x", "timestamp": "2025-08-01T10:00:00.000Z", "instructions": None, "git": {"branch": "main"}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text":
            "<environment_context>\n  <cwd>/srv/api</cwd>\n</environment_context>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list files"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "a.txt"},
    ]  # fmt: skip
    found = CODEX.read(jsonl(*items))
    assert [type(item).__name__ for item in found.items] == ["Text", "Call", "Result"]
    assert said(found) == ["list files", "a.txt"]
    about = CODEX.described(jsonl(*items))
    assert (about.title, about.cwd, about.turns) == ("list files", "/srv/api", 1)


def talk_of(turns: int, words: int) -> Conversation:
    rng = random.Random(turns)
    made = Conversation()
    for number in range(turns):
        text = " ".join(rng.choices(["disk", "cache", "parser", "full", "after", "restart"], k=words))
        made.items += [Text(USER, f"question {number} {text}"), Call(f"c{number}", "Bash", {"command": "ls"}),
                       Result(f"c{number}", text), Text(ASSISTANT, f"answer {number}")]  # fmt: skip
    return made


@pytest.mark.parametrize("budget", [700, 2000, 8000, 40_000])
@pytest.mark.parametrize("turns, words", [(3, 60), (40, 60), (300, 10)])
def test_a_budget_is_kept_and_the_newest_turns_stay_whole(turns: int, words: int, budget: int):
    talk = talk_of(turns, words)
    made = fit.fitted(talk, budget, "gpt-5", "crdtsync session show x")
    assert sum(fit._cost(turn, tokenizer("gpt-5")) for turn in made.turns()) <= budget
    assert made.items[-4:] == talk.items[-4:]
    calls = [item.id for item in made.items if isinstance(item, Call)]
    assert calls == [item.id for item in made.items if isinstance(item, Result)]
    if made.items != talk.items:
        assert isinstance(made.items[0], Text)
        assert made.items[0].role == CONTEXT
        assert f"question {turns - len(calls) - 1}" in made.items[0].text or "left out" in made.items[0].text
        assert made.lost
    with pytest.raises(InvalidRequest, match="newest turn alone"):
        fit.fitted(talk, 30, "gpt-5", "x")


@pytest.mark.parametrize("before", [0, 5])
def test_results_that_are_too_long_for_a_budget_become_compact_in_the_newest_turn(before: int):
    long = [" ".join(f"{kind} {number}" for number in range(20_000)) for kind in ("disk", "cache")]
    newest: list[Item] = [Text(USER, "go on"), Text(ASSISTANT, "I look.")]
    for number, text in enumerate(["short", *long]):
        newest += [Call(f"new{number}", "Bash", {"command": "ls"}), Result(f"new{number}", text)]
    talk = Conversation([*talk_of(before, 60).items, *newest])
    made = fit.fitted(talk, 3000, "gpt-5", "crdtsync session show x")
    assert sum(fit._cost(turn, tokenizer("gpt-5")) for turn in made.turns()) <= 3000
    assert [type(item) for item in made.turns()[-1]] == [type(item) for item in newest]
    small, *shortened = [item.text for item in made.items[-len(newest) :] if isinstance(item, Result)]
    assert small == "short"
    for text, whole in zip(shortened, long, strict=True):
        assert text.startswith(whole[:20])
        assert "in full: crdtsync session show x" in text
    assert "2 × result in full: the budget; crdtsync session show x shows it" in made.losses()
    assert bool(made.turns()[0]) == (before > 0)


def test_people_see_the_turns_that_they_name():
    text = list(shown(TALK, "2"))
    assert [line for line in text if not line.startswith("──")] == ["User: and now?", "Agent: Done."]
    assert "→ Bash" in "\n".join(shown(TALK, "1-1"))
    assert list(shown(Conversation())) == []
    with pytest.raises(InvalidRequest, match="turns 1 to 2, not 3-9"):
        list(shown(TALK, "3-9"))
    with pytest.raises(InvalidRequest, match="3-5"):
        list(shown(TALK, "x"))


def mutated(lines: list[bytes], rng: random.Random) -> Iterable[bytes]:
    """Lines with something broken in them: values of other types, cut lines, lines in another order."""
    for line in lines:
        chance = rng.random()
        if chance < 0.1:
            yield line[: rng.randrange(len(line))]
        elif chance < 0.2:
            yield bytes(rng.randrange(256) for _ in range(20))
        elif chance < 0.7:
            comma, _, record = line.rpartition(b",{")
            try:
                value = json.loads(b"{" + record if not comma and line.startswith(b",{") else line)
            except ValueError:
                yield line  # an end of OpenCode's document
                continue
            yield json.dumps(_broken(value, rng)).encode()
        else:
            yield line
    if rng.random() < 0.3:
        yield rng.choice(lines)


def _broken(value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.08:
        return rng.choice([None, 3, "x", [], {}, [None], {"type": "text"}, True])
    if isinstance(value, dict):
        return {name: _broken(one, rng) for name, one in value.items() if rng.random() > 0.03}
    return [_broken(one, rng) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("agent", AGENTS.values(), ids=list(AGENTS))
def test_no_line_breaks_a_reader(agent: CodingAgent):
    rng = random.Random(11)
    good = list(agent.write(TALK, HEAD))
    for _ in range(600):
        found = settled(agent.read(mutated(good, rng)))
        pending: set[str] = set()
        for item in found.items:
            if isinstance(item, Call):
                pending.add(item.id)
            elif isinstance(item, Result):
                pending.remove(item.id)
            else:
                assert not pending
        for other in AGENTS.values():
            list(other.write(taken(found, other, is_own=other is agent), HEAD))


def test_gemini_after_a_rewind_a_change_and_a_resume():
    def said_by(name: str, text: str, kind: str = "user", **more: Any) -> dict[str, Any]:
        return {"id": name, "type": kind, "content": [{"text": text}], **more}

    answer = {"functionResponse": {"id": "c", "name": "ls", "response": {"output": "a.txt"}}}
    call = {"id": "c", "name": "ls", "args": {}, "status": "success", "result": [answer]}
    records: list[dict[str, Any]] = [
        {"sessionId": "s", "projectHash": "x"},
        {"$set": {"messages": [said_by("0", "<session_context>x")]}},
        said_by("1", "start"),
        said_by("2", "", "gemini"),
        said_by("2", "I look.", "gemini", toolCalls=[call]),
        {"id": "3", "type": "user", "content": [answer]},
        {"id": "4", "type": "info", "content": "update available"},
        said_by("5", "dead end"),
        {"$rewindTo": "5"},
    ]
    found = GEMINI.read(jsonl(*records))
    assert said(found) == ["start", "I look.", "a.txt"]
    assert found.lost.total() == 2
    resumed = [
        said_by("1", "start"),
        {"id": "2", "type": "gemini", "content": [{"functionCall": call}]},
        {"id": "2", "type": "user", "content": [answer]},
        {"id": "3", "type": "user", "content": [answer]},
    ]
    found = GEMINI.read(jsonl(*records, {"$set": {"messages": resumed}}, said_by("6", "on")))
    assert [type(item).__name__ for item in found.items] == ["Text", "Call", "Result", "Text"]
    assert said(GEMINI.read(jsonl(*records, {"$rewindTo": "gone"}, said_by("6", "on")))) == ["on"]


def test_opencode_names_its_model_and_orders_its_messages():
    document = json.loads(b"".join(OPENCODE.write(TALK, replace(HEAD, model="fake/m/x"))))
    assert document["messages"][0]["info"]["model"] == {"providerID": "fake", "modelID": "m/x"}
    ids = [message["info"]["id"] for message in document["messages"]]
    assert ids == sorted(ids)
    parts = [part["id"] for message in document["messages"] for part in message["parts"]]
    assert parts == sorted(parts)
    assert len({*ids, *parts}) == len(ids) + len(parts)
    assert document["info"]["directory"] == HEAD.cwd
    kinds = [[part["type"] for part in message["parts"]] for message in document["messages"]]
    assert ["text", "text", "tool", "tool"] in kinds  # an answer that follows results is a message of its own


def test_lines_of_a_newer_version_are_read_as_far_as_they_are_known():
    assert CODEX.read([]).items == []
    assert CLAUDE.read([b"", b"null", b"[]", b'{"type": "user"}']).items == []


@pytest.mark.parametrize(
    "name,arguments",
    [
        ("Edit", {"file_path": "a.py", "old_string": "x = 1\ny = 2", "new_string": "x = 3\ny = 2"}),
        ("MultiEdit", {"file_path": "a.py", "edits": [{"old_string": "x = 1\ny = 2", "new_string": "x = 3\ny = 2"}]}),
        ("replace", {"file_path": "a.py", "old_string": "x = 1\ny = 2", "new_string": "x = 3\ny = 2"}),
        ("edit", {"filePath": "a.py", "oldString": "x = 1\ny = 2", "newString": "x = 3\ny = 2"}),
        ("apply_patch", {"input": "*** Begin Patch\n--- a.py\n-x = 1\n+x = 3\n y = 2\n*** End Patch"}),
        ("exec_command", {"cmd": "cat <<X\n*** Begin Patch\n--- a.py\n-x = 1\n+x = 3\n y = 2\n*** End Patch\nX"}),
    ],
)
def test_what_a_call_changes_in_a_file_is_shown_as_a_diff(name: str, arguments: dict[str, Any]):
    talk = Conversation([Text(USER, "mend it"), Call("1", name, arguments), Result("1", "ok")])
    wanted = ["--- a.py", "-x = 1", "+x = 3", " y = 2"]
    assert list(edited(talk)) == [f"# turn 1, {name}", *wanted]
    assert "\n".join(wanted) in "\n".join(shown(talk))


def test_a_written_file_is_all_new_and_other_calls_edit_nothing():
    talk = Conversation([Call("1", "Write", {"file_path": "a.py", "content": "x = 1\n"}),
                         Call("2", "Read", {"file_path": "a.py"}), Call("3", "send", {"path": "x", "content": "y"}),
                         Call("4", "Edit", {"file_path": 3, "edits": [None, 4], "old_string": []})])  # fmt: skip
    assert list(edited(talk)) == ["# turn 0, Write", "--- a.py", "+x = 1"]
    assert next(lines_of(talk.items[1])).startswith("→ Read {")


def test_the_log_has_a_line_for_each_turn():
    assert list(logged(TALK, [2])) == [
        "1  -  2 calls  look at the picture",
        "2  -  0 calls  (excluded) and now?",
    ]
