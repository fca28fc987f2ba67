"""A model endpoint on loopback that says what a script tells it to: the streaming dialects of coding agents.

A script is a list of turns, one for each request: a str is what the model says at the end, a pair is a tool of ours
that it calls with arguments, an :class:`OwnTool` one of the agent's own. What was asked is kept in ``requests``, so
that a test sees what a model would have seen.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from uuid import uuid4


class OwnTool(NamedTuple):
    """A call of a tool that the agent itself brings along, such as its shell."""

    name: str
    arguments: dict[str, Any]


Turn = str | tuple[str, dict[str, Any]]


class ModelEndpoint:
    """Answers from a script; after its end it says "done"."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._turns = list(turns)
        self._lock = threading.Lock()
        self.port = 0

    @contextmanager
    def running(self) -> Iterator[str]:
        """Serve until the end of the block; gives the address."""
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)))
                events = endpoint.answer(self.path, asked)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for name, event in events:
                    typed = f"event: {name}\ndata: {json.dumps({'type': name, **event})}\n\n"
                    self.wfile.write((typed if name else f"data: {json.dumps(event)}\n\n").encode())

            def do_GET(self) -> None:
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{self.port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join(60)

    def answer(self, path: str, asked: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The next turn, in the dialect of ``path``; requests without tools are side questions and get no turn."""
        with self._lock:
            self.requests.append(asked)
            turn = (self._turns.pop(0) if self._turns else "done") if asked.get("tools") else "ok"
            number = len(self.requests)
        for part, dialect in (("/responses", _responses), ("/messages", _messages), ("/chat/", _completions)):
            if part in path:
                return dialect(turn, number)
        return _contents(turn, number)

    def seen(self) -> str:
        """All that the model was told, as one text."""
        return json.dumps(self.requests, ensure_ascii=False)


def _responses(turn: Turn, number: int) -> list[tuple[str, dict[str, Any]]]:
    """OpenAI's Responses API."""
    if isinstance(turn, str):
        item: dict[str, Any] = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": turn}],
        }
    else:
        namespace = {} if isinstance(turn, OwnTool) else {"namespace": "mcp__crdtsync"}
        item = {"type": "function_call", "call_id": f"call_{uuid4().hex}", **namespace, "name": turn[0],
                "arguments": json.dumps(turn[1])}  # fmt: skip
    usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
    return [
        ("response.created", {"response": {"id": f"r{number}"}}),
        ("response.output_item.done", {"output_index": 0, "item": {"id": f"i{number}", **item}}),
        ("response.completed", {"response": {"id": f"r{number}", "usage": usage}}),
    ]


def _messages(turn: Turn, number: int) -> list[tuple[str, dict[str, Any]]]:
    """Anthropic's Messages API."""
    if isinstance(turn, str):
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta, reason = {"type": "text_delta", "text": turn}, "end_turn"
    else:
        name = turn.name if isinstance(turn, OwnTool) else f"mcp__crdtsync__{turn[0]}"
        block = {"type": "tool_use", "id": f"toolu_{uuid4().hex}", "name": name, "input": {}}
        delta, reason = {"type": "input_json_delta", "partial_json": json.dumps(turn[1])}, "tool_use"
    message: dict[str, Any] = {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    return [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 10}}),
        ("message_stop", {}),
    ]


def _completions(turn: Turn, number: int) -> list[tuple[str, dict[str, Any]]]:
    """OpenAI's Chat Completions API; its events have no names."""
    delta: dict[str, Any] = {"role": "assistant"}
    if isinstance(turn, str):
        delta["content"] = turn
    else:
        function = {"name": turn[0], "arguments": json.dumps(turn[1])}
        delta["tool_calls"] = [{"index": 0, "id": f"call_{uuid4().hex}", "type": "function", "function": function}]
    common = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "test"}
    reason = "stop" if isinstance(turn, str) else "tool_calls"
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    return [
        ("", {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        ("", {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}),
    ]


def _contents(turn: Turn, _: int) -> list[tuple[str, dict[str, Any]]]:
    """Google's generateContent; its events have no names."""
    part = {"text": turn} if isinstance(turn, str) else {"functionCall": {"name": turn[0], "args": turn[1]}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
    return [("", {"candidates": [candidate], "usageMetadata": usage})]
