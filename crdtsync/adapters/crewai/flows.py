"""The states of CrewAI's flows."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from crewai.flow.persistence.base import FlowPersistence
from pydantic import Field, PrivateAttr
from pydantic_core import PydanticSerializationError, to_jsonable_python

from crdtsync.adapters.attached import check_each
from crdtsync.adapters.keys import Keys
from crdtsync.adapters.readable import newest_readable
from crdtsync.adapters.redaction import Rule, redacted
from crdtsync.client import Client
from crdtsync.client.values.packer import succeeds
from crdtsync.errors import InvalidValue

if TYPE_CHECKING:
    from crewai.flow.async_feedback.types import PendingFeedbackContext
    from pydantic import BaseModel

FLOWS, PENDING = "flows", "pending"
TOLD_DEPTH_MAX = 63  # of the place of what cannot be stored
READ_MAX = 10_000  # as many as a client remembers what it read of
T = TypeVar("T")
LLM_SETTINGS = frozenset((
    "frequency_penalty", "max_completion_tokens", "max_output_tokens", "max_retries", "max_tokens", "model",
    "presence_penalty", "reasoning_effort", "seed", "stop", "stop_sequences", "temperature", "timeout", "top_k",
    "top_p",
))  # fmt: skip
"""Any agent may give these of a model that a flow asks when it goes on: not where that is, nor how to log in."""


class CrdtFlowPersistence(FlowPersistence):
    """Keeps the newest state of each flow on this host's disk and on every other host.

    ``client`` is a client, or the path of a daemon's socket (None: the usual one). The state of a flow is the key
    ``PREFIX/flows/ID``, and its history has those before. A state is on this host's disk when its step has ended; with
    ``w`` (a number, ``"majority"``, ``"all"``) on so many hosts'. It is what JSON can hold, at most 1 MiB and 63 levels
    of it, with integers of at most 64 bits; bytes have to be UTF-8, and a dict as the state may hold no NaN.

    Two hosts that run one flow at once both keep their states, as siblings; the newest one is loaded. A step replaces
    what this has loaded or stored of its flow; before the first step of a flow that was not loaded, this reads what is
    there. Texts go through the rule ``redact`` before they are written.

    With the state of a flow that waits, CrewAI stores which model it asks then, and where that is. Any agent that may
    write the key could send your key of the model's provider elsewhere: so an address, and all that is more than a
    name and numbers, is taken only where ``llm_settings`` says the same, such as ``{"base_url": "http://gpu:8000/v1"}``.
    """

    persistence_type: str = "CrdtFlowPersistence"
    socket: str | None = None
    prefix: str = "crewai"
    w: int | str | None = None
    llm_settings: dict[str, Any] = Field(default_factory=dict)
    is_redacting: bool = False
    _redact: Rule | None = PrivateAttr(None)
    _client: Client | None = PrivateAttr(None)
    _owned: Client | None = PrivateAttr(None)
    _read_once: OrderedDict[str, None] = PrivateAttr(default_factory=OrderedDict)

    def __init__(
        self, client: Client | str | os.PathLike[str] | None = None, /, *, redact: Rule | None = None, **fields: Any
    ) -> None:
        is_path = client is not None and not isinstance(client, Client)
        super().__init__(**({"socket": str(client)} if is_path else {}), **fields)
        self._client = client if isinstance(client, Client) else None
        self._redact = redact
        self.is_redacting |= redact is not None

    def init_db(self) -> None:
        """Nothing is to be made first."""

    def close(self) -> None:
        """Close the client that this made for itself; one that was handed in stays open."""
        if self._owned is not None:
            self._owned.close()
            self._client = self._owned = None
            self._read_once.clear()

    def save_state(self, flow_uuid: str, method_name: str, state_data: dict[str, Any] | BaseModel) -> None:
        """Store the state of a flow after a step, on disk on return."""
        stored = self._stored(method_name, state_data)
        check_each([(f"the flow {flow_uuid!r}", stored)])
        self._state.set(self._key_to_write(FLOWS, flow_uuid), stored, w=self.w)

    def load_state(self, flow_uuid: str) -> dict[str, Any] | None:
        """The newest state of a flow that can be read; None if there is none.

        :raises ValueError: something is there, and nothing that can be read.
        """
        entry = self._read(self._state.entry, FLOWS, flow_uuid)
        return None if entry is None else newest_readable(self._state, entry, _state_of)

    def save_pending_feedback(
        self, flow_uuid: str, context: PendingFeedbackContext, state_data: dict[str, Any] | BaseModel
    ) -> None:
        """Store the state of a flow that waits for a person, and what it needs to go on, as one change."""
        stored = self._stored(context.method_name, state_data)
        said = redacted(self._redact, json.loads(_text(context.to_dict())))
        waiting = {**stored, "context": _text(said)}
        check_each([(f"the flow {flow_uuid!r}", waiting)])
        flow, pending = (self._key_to_write(kind, flow_uuid) for kind in (FLOWS, PENDING))
        with self._state.batch(w=self.w) as batch:
            batch.set(flow, stored)
            batch.set(pending, waiting)

    def load_pending_feedback(self, flow_uuid: str) -> tuple[dict[str, Any], PendingFeedbackContext] | None:
        """The state of a flow that waits for a person, and what it needs to go on; None if it does not wait.

        :raises ValueError: it would ask a model elsewhere than ``llm_settings`` says, or nothing there can be read.
        """
        # The next step replaces the state itself, so that is read too, and first: what comes after it stays unread.
        self._read(self._state.get, FLOWS, flow_uuid)
        entry = self._read(self._state.entry, PENDING, flow_uuid)
        if entry is None:
            return None
        state, context, llm = newest_readable(self._state, entry, _pending)
        self._check(flow_uuid, llm)
        return state, context

    def _check(self, flow_uuid: str, llm: Any) -> None:
        """That a model's settings are those that any agent may choose, or that this program has named."""
        said = llm.items() if isinstance(llm, dict) else ()
        more = {name: value for name, value in said if name not in LLM_SETTINGS}
        if any(name not in self.llm_settings or self.llm_settings[name] != value for name, value in more.items()):
            message = (
                f"the flow {flow_uuid!r} would ask a model with {more}, which another agent may have written: "
                f"if that is yours, give CrdtFlowPersistence(llm_settings={more})"
            )
            raise ValueError(message)

    def clear_pending_feedback(self, flow_uuid: str) -> None:
        """A flow waits no longer."""
        self._state.delete(self._key_to_write(PENDING, flow_uuid), w=self.w)

    def _stored(self, method: str, state: dict[str, Any] | BaseModel) -> dict[str, Any]:
        if self.is_redacting and self._redact is None:
            message = "CrewAI has made this from what a flow has stored, without its rule: give the flow redact= again"
            raise ValueError(message)
        return {"method": method, "state": redacted(self._redact, _plain(state))}

    def _key(self, kind: str, flow_uuid: str) -> str:
        return Keys(self.prefix).key(kind, flow_uuid)

    def _read(self, read: Callable[[str], T], kind: str, flow_uuid: str) -> T:
        key = self._key(kind, flow_uuid)
        found = read(key)
        self._read_once[key] = None
        if len(self._read_once) > READ_MAX:
            self._read_once.popitem(last=False)
        return found

    def _key_to_write(self, kind: str, flow_uuid: str) -> str:
        """A key that was read here: what is written to it replaces what was read or written here, and nothing else."""
        key = self._key(kind, flow_uuid)
        if key not in self._read_once:
            self._read(self._state.get, kind, flow_uuid)
        return key

    @property
    def _state(self) -> Client:
        if self._client is None:  # made from what a flow has stored, or closed
            self._client = self._owned = Client(self.socket)
        return self._client


def _plain(state: dict[str, Any] | BaseModel) -> Any:
    """As CrewAI's own persistence would give it back, which stores JSON."""
    if not isinstance(state, dict) and not hasattr(state, "model_dump"):
        message = f"the state of a flow is a dict or a Pydantic model, not {type(state).__name__}"
        raise ValueError(message)  # as CrewAI's own
    try:
        return json.loads(_text(state if isinstance(state, dict) else state.model_dump(mode="json", fallback=str)))
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        for place in _no_text(state, "$"):
            message = f"the state of a flow cannot be stored: at {place} there are bytes that are no UTF-8"
            raise InvalidValue(message, path=place) from error
        raise


def _no_text(value: Any, place: str) -> Iterator[str]:
    """The places of bytes that JSON cannot hold as a text."""
    if isinstance(value, bytes | bytearray) and not succeeds(value.decode):
        yield place
    inside: Any = enumerate(value) if isinstance(value, list | tuple) else ()
    if isinstance(value, dict):
        inside = value.items()
    elif hasattr(value, "model_dump"):
        inside = value  # a model gives its fields so
    for name, each in inside if place.count(".") < TOLD_DEPTH_MAX else ():
        yield from _no_text(each, f"{place}.{str(name)[:40]}")


def _state_of(stored: Any) -> dict[str, Any]:
    return dict(stored["state"])


def _pending(stored: Any) -> tuple[dict[str, Any], PendingFeedbackContext, Any]:
    """The state of a flow that waits, what it needs to go on, and the model that it asks then."""
    from crewai.flow.async_feedback.types import PendingFeedbackContext

    context = json.loads(stored["context"])
    return _state_of(stored), PendingFeedbackContext.from_dict(context), context.get("llm")


def _text(value: Any) -> str:
    return json.dumps(value, default=_as_json)


def _as_json(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else to_jsonable_python(value, fallback=str)
