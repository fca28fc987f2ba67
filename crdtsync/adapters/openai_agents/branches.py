"""A session with branches and usage, as the SDK's ``AdvancedSQLiteSession`` has them.

    openai-agents/SESSION                        the items of the branch main
    openai-agents/SESSION/branches/NAME          where a branch was begun; what it says of a removed one keeps the name
    openai-agents/SESSION/branches/NAME/items    its items, with a copy of those that came before
    openai-agents/SESSION/usage/NAME/TURN        what a turn has used

A turn begins with a message of the user, and its number is how many of them there are up to there.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crdtsync.adapters.keys import quoted, unquoted
from crdtsync.adapters.openai_agents.session import CrdtSession
from crdtsync.adapters.threads import reading, writing
from crdtsync.errors import CrdtSyncError, VersionMismatch

if TYPE_CHECKING:
    from agents import RunResult, TResponseInputItem

    from crdtsync.client import LogItem

log = logging.getLogger(__name__)

MAIN = "main"
NUMBERS = ("requests", "input_tokens", "output_tokens", "total_tokens")
DETAILS = ("input_tokens_details", "output_tokens_details")
NAMED_BY_TYPE = frozenset(
    ("computer_call", "file_search_call", "web_search_call", "code_interpreter_call", "shell_call", "apply_patch_call")
)
CALLS = NAMED_BY_TYPE | {
    "tool_call", "function_call", "tool_search_call", "custom_tool_call", "mcp_call", "mcp_approval_request"
}  # fmt: skip


class AdvancedCrdtSession(CrdtSession):
    """A :class:`CrdtSession` that also has branches, each a conversation that left another one at a turn, and says what
    turns have used.

    Every host has all branches; which of them is the current one, each object says for itself. The name of a branch is
    used once; where two hosts that are cut off use it both, it has the items of both.
    """

    _current_branch_id = MAIN

    # -- items --------------------------------------------------------------------------------------------------

    @reading
    def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[TResponseInputItem]:
        """As :meth:`CrdtSession.get_items`, of a branch, or of the current one."""
        return self._items(self._log(branch_id), limit)

    @writing
    def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item of the current branch and return it; with the last one of a turn goes its usage."""
        branch = self._current()
        popped = self._pop(self._log_key(branch))
        if popped is not None and _is_user(popped):
            self._client.delete(self._usage(branch, self._turn(branch) + 1), w=self._w)
        return popped

    @writing
    def clear_session(self) -> None:
        """Remove all branches with their items and usage; the names of the branches stay used."""
        self._client.delete(self._key, w=self._w)
        for branch in self._branches():
            if branch != MAIN:
                self._remove(branch)
        self._client.delete_prefix(f"{self._key}/usage/", w=self._w)
        self._current_branch_id = MAIN

    # -- branches -----------------------------------------------------------------------------------------------

    @writing
    def create_branch_from_turn(self, turn_number: int, branch_name: str | None = None) -> str:
        """Begin a branch with what came before a turn of the current one, and go over to it; its name.

        :raises ValueError: there is no such turn, or the name is blank or was used before.
        """
        if branch_name is not None and not branch_name.strip():
            message = "Branch name cannot be empty"
            raise ValueError(message)
        source = self._current()
        elements = self._elements(source)
        begun = [at for at, (turn, item) in enumerate(_with_turns(elements)) if turn == turn_number and _is_user(item)]
        if not begun:
            message = f"Turn {turn_number} does not contain a user message in branch '{source}'"
            raise ValueError(message)
        before = self._redacted([element.value for element in elements[: begun[0]]])
        branch = branch_name or f"branch_from_turn_{turn_number}_{secrets.token_hex(4)}"
        try:
            if branch == MAIN:
                raise VersionMismatch(f"{MAIN} is there from the beginning")
            self._client.set(self._record(branch), {}, if_absent=True, w=self._w)
        except VersionMismatch as used:
            message = f"Branch '{branch}' has already been used in this session"
            raise ValueError(message) from used
        self._write_all("append", [(self._log_key(branch), item) for item in before])
        self._client.set(self._record(branch), {"from": source, "turn": turn_number}, w=self._w)
        self._current_branch_id = branch
        return branch

    async def create_branch_from_content(self, search_term: str, branch_name: str | None = None) -> str:
        """Begin a branch before the first turn whose message has these words: see :meth:`create_branch_from_turn`.

        :raises ValueError: no turn has them, or the name is blank or was used before.
        """
        found = await self.find_turns_by_content(search_term)
        if not found:
            message = f"No user turns found containing '{search_term}'"
            raise ValueError(message)
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    @writing
    def switch_to_branch(self, branch_id: str) -> None:
        """Go over to another branch.

        :raises ValueError: it is not there, or has no items.
        """
        self._check(branch_id)
        self._current_branch_id = branch_id

    @writing
    def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """Remove a branch; with ``force`` also the current one, whose place the branch main takes.

        :raises ValueError: it is not there, or it is main, or the current one.
        """
        if not branch_id or not branch_id.strip():
            message = "Branch ID cannot be empty"
            raise ValueError(message)
        if branch_id == MAIN:
            message = "Cannot delete the 'main' branch"
            raise ValueError(message)
        if branch_id == self._current_branch_id and not force:
            message = f"Cannot delete current branch '{branch_id}'. Use force=True or switch branches first"
            raise ValueError(message)
        self._check(branch_id)
        if branch_id == self._current_branch_id:
            self._check(MAIN)
            self._current_branch_id = MAIN
        self._remove(branch_id)

    @reading
    def list_branches(self) -> list[dict[str, Any]]:
        """The branches that have items, the oldest first: ``branch_id``, ``message_count``, ``user_turns``,
        ``is_current``, ``created_at``.
        """
        current, found = self._current(), []
        for branch in self._branches():
            if elements := self._elements(branch):
                turns = sum(_is_user(element.value) for element in elements)
                known = {"branch_id": branch, "message_count": len(elements), "user_turns": turns}
                found.append({**known, "is_current": branch == current, "created_at": _time(elements[0])})
        return found

    def _branches(self) -> list[str]:
        """Main, then those that are there, the oldest first."""
        entries = [entry for entry in self._client.entries(self._record("")[:-1]) if not entry.key.endswith("/items")]
        begun = [entry for entry in entries if isinstance(entry.value, dict) and "from" in entry.value]
        begun.sort(key=lambda entry: (_time(entry), entry.key))
        return [MAIN, *(unquoted(entry.key.rpartition("/")[2]) for entry in begun)]

    def _check(self, branch: str) -> None:
        if branch not in self._branches() or not self._elements(branch):
            message = f"Branch '{branch}' does not exist"
            raise ValueError(message)

    def _remove(self, branch: str) -> None:
        self._client.set(self._record(branch), {"is_removed": True}, w=self._w)
        self._client.delete(self._log_key(branch), w=self._w)
        self._client.delete_prefix(self._usage(branch), w=self._w)

    def _current(self) -> str:
        """The current branch; main, if that was removed meanwhile, maybe on another host."""
        if self._current_branch_id != MAIN and "from" not in (
            self._client.get(self._record(self._current_branch_id)) or {}
        ):
            self._current_branch_id = MAIN
        return self._current_branch_id

    # -- turns and tools ----------------------------------------------------------------------------------------

    @reading
    def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """The messages of the user: ``turn``, ``content`` (its beginning), ``full_content``, ``timestamp``."""
        return self._turns(branch_id, 100)

    @reading
    def find_turns_by_content(self, search_term: str, branch_id: str | None = None) -> list[dict[str, Any]]:
        """The turns whose message has these words, like :meth:`get_conversation_turns`."""
        pattern = re.compile(re.escape(search_term), re.IGNORECASE | re.ASCII)
        found = self._turns(branch_id, None)
        return [turn for turn in found if any(map(pattern.search, _texts(turn["full_content"])))]

    def _turns(self, branch: str | None, shown: int | None) -> list[dict[str, Any]]:
        found = []
        elements = self._elements(branch)
        for element, (turn, item) in zip(elements, _with_turns(elements), strict=True):
            if _is_user(item):
                full = item.get("content", "")
                text = full if isinstance(full, str) else json.dumps(full, ensure_ascii=False)
                content = text if shown is None or len(text) <= shown else f"{text[:shown]}..."
                known = {"turn": turn, "content": content, "full_content": full}
                found.append({**known, "timestamp": _time(element), "can_branch": True})
        return found

    @reading
    def get_conversation_by_turns(self, branch_id: str | None = None) -> dict[int, list[dict[str, str | None]]]:
        """The parts of each turn: the ``type`` of each item, and its ``tool_name``."""
        turns: dict[int, list[dict[str, str | None]]] = {}
        for turn, item in _with_turns(self._elements(branch_id)):
            turns.setdefault(turn, []).append({"type": _type(item), "tool_name": _tool_name(item)})
        return turns

    @reading
    def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str | None, int, int]]:
        """How often each tool was called, by turn: (tool, times, turn)."""
        items = _with_turns(self._elements(branch_id))
        searched = {turn for turn, item in items if _type(item) == "tool_search_call"}
        counts: Counter[tuple[int, str | None]] = Counter()
        for turn, item in items:
            kind = _type(item)
            if kind in CALLS or (kind == "tool_search_output" and turn not in searched):
                counts[turn, _tool_name(item)] += 1
        return [(tool, times, turn) for (turn, tool), times in sorted(counts.items(), key=lambda pair: pair[0][0])]

    # -- usage --------------------------------------------------------------------------------------------------

    @writing
    def store_run_usage(self, result: RunResult) -> None:
        """Store what a run has used, for the newest turn of the current branch; call it after ``Runner.run``.

        A failure is logged, as the SDK's own session does: the run is over.
        """
        try:
            used = result.context_wrapper.usage
            if used is not None:
                self._store_usage(used)
        except (CrdtSyncError, AttributeError, TypeError, ValueError) as error:
            log.warning("the usage of a run of %s is not stored: %s", self.session_id, error)

    def _store_usage(self, used: Any) -> None:
        branch = self._current()
        if not self._elements(branch):
            return
        details = {name: getattr(used, name, None) for name in DETAILS}
        plain = {name: json.loads(json.dumps(vars(held))) if held else None for name, held in details.items()}
        numbers = {name: getattr(used, name) or 0 for name in NUMBERS}
        self._client.set(self._usage(branch, self._turn(branch)), {**numbers, **plain}, w=self._w)

    @reading
    def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """The use of all turns together, of one branch or of all; None if nothing is known."""
        found = self._used(branch_id)
        if not found:
            return None
        return {**{name: sum(used[name] for _, used in found) for name in NUMBERS}, "total_turns": len(found)}

    @reading
    def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """The use of a turn, or of each of them, with their ``user_turn_number``."""
        found = self._used(branch_id or self._current())
        if user_turn_number is not None:
            return dict(found).get(user_turn_number, {})
        return [{"user_turn_number": turn, **used} for turn, used in found]

    def _used(self, branch: str | None) -> list[tuple[int, dict[str, Any]]]:
        prefix = f"{self._key}/usage/" if branch is None else self._usage(branch)
        found = self._client.items(prefix)
        return [(int(key.rpartition("/")[2]), used) for key, used in found if isinstance(used, dict)]

    # -- keys ---------------------------------------------------------------------------------------------------

    def _record(self, branch: str) -> str:
        return f"{self._key}/branches/{quoted(branch)}"

    def _log_key(self, branch: str) -> str:
        return self._key if branch == MAIN else f"{self._record(branch)}/items"

    def _log(self, branch: str | None) -> str:
        return self._log_key(branch or self._current())

    def _usage(self, branch: str, turn: int | None = None) -> str:
        return f"{self._key}/usage/{quoted(branch)}/" + ("" if turn is None else f"{turn:08}")

    def _elements(self, branch: str | None) -> list[LogItem]:
        return self._newest(self._log(branch), None)

    def _turn(self, branch: str) -> int:
        return sum(_is_user(element.value) for element in self._elements(branch))


def _with_turns(elements: Sequence[LogItem]) -> list[tuple[int, Any]]:
    turn, found = 0, []
    for element in elements:
        turn += _is_user(element.value)
        found.append((turn, element.value))
    return found


def _is_user(item: Any) -> bool:
    return bool(item.get("role") == "user")


def _type(item: Any) -> str:
    return str(item["role"]) if item.get("role") in ("user", "assistant") else str(item.get("type") or "other")


def _tool_name(item: Any) -> str | None:
    kind, name = item.get("type"), item.get("name")
    if kind in NAMED_BY_TYPE:
        return str(kind)
    if kind in ("tool_search_call", "tool_search_output"):
        return "tool_search"
    space = item.get("server_label" if kind in ("mcp_call", "mcp_approval_request") else "namespace")
    if space == name and "namespace" in item:
        space = None  # the SDK has made it of the name
    return ".".join(str(part) for part in (space, name) if part) or None


def _texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content]


def _time(element: Any) -> str:
    return "" if element.time is None else element.time.isoformat()
