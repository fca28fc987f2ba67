"""Agents that edit texts in replicas of their own, as the clients do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crdtsync.client.text.editor_state import Editing
from crdtsync.client.text.replica import NO_CHANGE, TextReplica
from crdtsync.client.values.results import event_from_wire
from tests.fleet.agent import Agent
from tests.fleet.host import Host


class Editor:
    """One session's view of one text: positions mean what it last read, plus its own edits."""

    def __init__(self, machine: Host, key: str = "t", name: str = "agent") -> None:
        self.session: Agent = machine.agent(name)
        self.key = key
        self.replica = TextReplica(None, None)

    @property
    def shown(self) -> str:
        """What positions mean."""
        return self.replica.content

    def read(self) -> str:
        """Read the text as it is here now."""
        args: dict[str, Any] = {"key": self.key}
        if self.replica.document is not None:
            args |= {"document": self.replica.document, "state": self.replica.state()}
        reply = self.session.ask("text_read", **args)
        if reply is None:
            self.replica = TextReplica(None, None)
        elif reply["document"] == self.replica.document:
            self.replica.apply(reply["update"])
        else:
            self.replica = TextReplica(reply["document"], reply["update"])
        return self.replica.content

    def edit(self, start: int, end: int, text: str) -> Any:
        """Replace a part of the text as last read."""
        return self.edit_all([(start, end, text)])

    def edit_all(self, changes: list[tuple[int, int, str]]) -> Any:
        """Make several at once; what is long goes out in parts, and the reply is that of the last."""
        reply: Any = None
        for update in self.replica.edit(changes) or [NO_CHANGE]:
            reply = self.session.do("text_apply", key=self.key, document=self.replica.document, update=update)
            self.replica.document = self.replica.document or reply["document"]
            self.replica.accept(update)
        return reply

    def append(self, text: str) -> Any:
        return self.edit(len(self.replica.content), len(self.replica.content), text)

    def compact(self) -> Any:
        return self.session.do_slowly("text_compact", key=self.key)


class Typist:
    """A client's editor, whose requests are made one by one. What is typed stays unsent until then."""

    def __init__(self, machine: Host, key: str = "t", name: str = "typist") -> None:
        self.session: Agent = machine.agent(name)
        self.key = key
        self.state = Editing(lambda: machine.fleet.random.getrandbits(53))
        self.session.ask("watch", prefix=key)
        self._typed: list[Callable[[], object]] = []
        self.work()
        self.state.read()

    @property
    def shown(self) -> str:
        """What positions mean."""
        return str(self.state.typed)

    def read(self) -> str:
        """Read the text; it is as it was where something must be sent first, or the daemon be asked."""
        self._listen()
        return self.state.read()

    def type(self, start: int, end: int, text: str, done: Callable[[], object]) -> None:
        """Replace a part of the text as last read; ``done`` is called when that is on disk."""
        self.state.typed.edit(start, end, text)
        self._typed.append(done)

    def work(self) -> bool:
        """Make the next request of the editor; False: there is none."""
        self._listen()
        state = self.state
        if state.is_to_fetch:
            args: dict[str, Any] = {"key": self.key, "state": state.fetching()}
            if state.document is not None:
                args["document"] = state.document
            found = self.session.ask("text_read", **args) or dict.fromkeys(("document", "update", "version"))
            state.fetched(found["document"], found["update"], found["version"])
            return True
        parts = state.request()
        if parts:
            named = {"key": self.key, "document": state.document}
            ops = [["text_apply", {**named, "update": part.update}] for part in parts]
            state.succeeded(self.session.do_slowly("batch", ops=ops)["results"][-1]["document"])
        if state.is_done:
            for done in self._typed:
                done()
            self._typed.clear()
        return bool(parts)

    def _listen(self) -> None:
        for event in self.session.told():
            self.state.told(event_from_wire(event), self.key)


def texts_of(machine: Host, key: str = "t") -> list[Any]:
    """All values of the key on this machine, the winner first."""
    return machine.agent("reader").values(key)
