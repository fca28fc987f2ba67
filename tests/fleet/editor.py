"""An agent that edits texts in a replica of its own, as the clients do."""

from __future__ import annotations

from typing import Any

from crdtsync.client.text.replica import NO_CHANGE, TextReplica
from tests.fleet.agent import Agent
from tests.fleet.host import Host


class Editor:
    """One session's view of one text: positions mean what it last read, plus its own edits."""

    def __init__(self, machine: Host, key: str = "t", name: str = "agent") -> None:
        self.session: Agent = machine.agent(name)
        self.key = key
        self.replica = TextReplica(None, None)

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


def texts_of(machine: Host, key: str = "t") -> list[Any]:
    """All values of the key on this machine, the winner first."""
    return machine.agent("reader").values(key)
