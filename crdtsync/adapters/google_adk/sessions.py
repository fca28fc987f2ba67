"""Google ADK's sessions: their events, and the states of sessions, users and apps.

google-adk/session/APP/USER/SESSION    a map: created, updated, and a field for each key of the session's state
google-adk/events/APP/USER/SESSION     a log: the events
google-adk/user/APP/USER               a map: the user's state
google-adk/app/APP                     a map: the app's state
"""

from __future__ import annotations

import json
import logging
import time
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from crdtsync.adapters.attached import Attached, check_each
from crdtsync.adapters.keys import quoted, unquoted
from crdtsync.adapters.readable import readable
from crdtsync.adapters.threads import reading, settled, writing
from crdtsync.errors import VersionMismatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crdtsync.client import Entry
    from crdtsync.client.operations.batch import Batch

log = logging.getLogger(__name__)

LOCKS = [Lock() for _ in range(64)]
FIELD = "state/"
"""The fields of a map that hold a state begin so."""


class CrdtSessionService(Attached, BaseSessionService):
    """Keeps sessions on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`. An event and its changes of the
    states of session, user and app are one write. An event and a value of a state have at most 1 MiB each.

    It may be used from any event loop and thread: every call waits in a thread of its own.
    """

    PREFIX = "google-adk"

    @writing
    def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Make a session, under an id of its own where none is given.

        :raises AlreadyExistsError: this host has a session of this id.
        """
        session_id = (session_id or "").strip() or str(uuid4())
        now = time.time()
        try:
            with self._client.batch(w=self._w) as batch:
                fields = {"created": now, "updated": now, **self._record(batch, app_name, user_id, state or {})}
                batch.merge(self._keys.key("session", app_name, user_id, session_id), fields, if_absent=True)
        except VersionMismatch as error:
            message = f"Session with id {session_id} already exists."
            raise AlreadyExistsError(message) from error
        made = self._get(app_name, user_id, session_id, None)
        if made is None:
            message = f"Session {session_id} was deleted as soon as it was there."
            raise SessionNotFoundError(message)
        return made

    @reading
    def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A session with its events, or those that ``config`` asks for; None if there is none.

        :raises SessionNotFoundError: what is there is no session.
        """
        return self._get(app_name, user_id, session_id.strip(), config)

    def _get(self, app: str, user: str, session_id: str, config: GetSessionConfig | None) -> Session | None:
        entry = self._client.entry(self._keys.key("session", app, user, session_id))  # before the events: what comes
        if entry is None:  # between makes the session stale, and is not taken for read
            return None
        if not isinstance(entry.value, dict):
            message = f"{entry.key} cannot be read: it holds no session"
            raise SessionNotFoundError(message)
        session = _session(entry, app, user, session_id, {**self._state("app", app), **self._state("user", app, user)})
        last, after = (None, None) if config is None else (config.num_recent_events, config.after_timestamp)
        if last != 0:
            events = self._events(app, user, session_id, last=last)
            session.events = [each for each in events if after is None or each.timestamp >= after]
        return session

    def _events(self, *names: str, last: int | None) -> list[Event]:
        """The newest events of a session, or all, oldest first."""
        key = self._keys.key("events", *names)
        stored = self._client.log(key, last=last)
        events = [event for _, event in readable(key, stored, _event)]
        if last is None or len(events) == len(stored):
            return events
        return self._events(*names, last=None)[-last:]  # what is no event does not count

    @reading
    def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of a user, or of all users, with their states and without events; the newest come last."""
        app = app_name
        of_app = self._state("app", app)
        of_users: dict[str, dict[str, Any]] = {}
        sessions = []
        for entry in self._client.entries(self._keys.below("session", app, *([] if user_id is None else [user_id]))):
            names = self._keys.names(entry.key)
            whole = entry if entry.value is not None else self._client.entry(entry.key)
            if whole is not None and isinstance(whole.value, dict) and len(names) == 3:
                _, user, session_id = names
                if user not in of_users:
                    of_users[user] = self._state("user", app, user)
                sessions.append(_session(whole, app, user, session_id, {**of_app, **of_users[user]}))
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    @writing
    def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events. Anything that another host adds to it at the same time stays."""
        with self._client.batch(w=self._w) as batch:
            for kind in ("session", "events"):
                batch.delete(self._keys.key(kind, app_name, user_id, session_id.strip()), seen=None)

    @reading
    def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of a user, without the prefix ``user:``."""
        state = self._state("user", app_name, user_id)
        return {name.removeprefix(State.USER_PREFIX): value for name, value in state.items()}

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event to the session given and to the stored one, with what it changes of states; all or nothing.

        :raises StaleSessionError: somebody has added to the stored session since the given one was read.
        :raises SessionNotFoundError: this host has no such session.
        """
        if event.partial:
            return event  # and there are many
        return await settled(self._append, session, event)

    def _append(self, session: Session, event: Event) -> Event:
        self._apply_temp_state(session, event)
        self._trim_temp_delta_state(event)
        names = (session.app_name, session.user_id, session.id)
        key = self._keys.key("session", *names)
        with LOCKS[hash(key) % len(LOCKS)]:  # two agents that share a session object come one after the other
            if session._storage_update_marker is None:  # noqa: SLF001  # ADK's own services keep theirs there, too
                session._storage_update_marker = self._marker(session)  # noqa: SLF001
            said = self._redacted(json.loads(event.model_dump_json(exclude_none=True)))
            check_each([(self._keys.key("events", *names), said)])
            try:
                with self._client.batch(w=self._w) as batch:
                    fields = self._record(batch, session.app_name, session.user_id, event.actions.state_delta)
                    batch.append(self._keys.key("events", *names), said)
                    fields["updated"] = event.timestamp
                    batch.merge(key, fields, if_version=session._storage_update_marker)  # noqa: SLF001
            except VersionMismatch as error:
                raise _not_as_read(session, is_there=error.current is not None) from error
            session._storage_update_marker = batch.results[-1].version  # noqa: SLF001
            session.last_update_time = event.timestamp
            return self._commit_event_to_session(session, event)

    def _marker(self, session: Session) -> str | None:
        """The version that a session was read at which does not say so, having been sent around."""
        names = (session.app_name, session.user_id, session.id)
        entry = self._client.entry(self._keys.key("session", *names))
        newest = self._events(*names, last=1)
        if entry is None:
            raise _not_as_read(session, is_there=False)
        if [each.id for each in newest] != [each.id for each in session.events[-1:]]:
            raise _not_as_read(session, is_there=True)
        return entry.version

    # -- states -----------------------------------------------------------------------------------------------

    def _state(self, kind: str, *names: str) -> dict[str, Any]:
        """The state of an app or a user, as a session shows it."""
        key = self._keys.key(kind, *names)
        fields = self._client.get(key)
        if not isinstance(fields, dict | None):
            log.warning("%s holds no state, and is left out", key)
            return {}
        return _state(fields, f"{kind}:")

    def _record(self, batch: Batch, app: str, user: str, delta: Mapping[str, Any]) -> dict[str, Any]:
        """Record the changes of the states of the app and the user; returns those of the session, as fields."""
        of_session: dict[str, Any] = {}
        others: dict[str, dict[str, Any]] = {}
        for name, value in self._redacted(to_jsonable_python(dict(delta), serialize_unknown=True)).items():
            if name.startswith(State.APP_PREFIX):
                others.setdefault(self._keys.key("app", app), {})[_field(name, State.APP_PREFIX)] = value
            elif name.startswith(State.USER_PREFIX):
                others.setdefault(self._keys.key("user", app, user), {})[_field(name, State.USER_PREFIX)] = value
            elif not name.startswith(State.TEMP_PREFIX):
                of_session[_field(name, "")] = value
        for key, fields in others.items():
            held = self._client.entry(key)
            batch.merge(key, fields, seen=None if held is None else held.version)  # with what others wrote meanwhile
        return of_session


def _session(entry: Entry, app: str, user: str, session_id: str, shared: dict[str, Any]) -> Session:
    fields: dict[str, Any] = entry.value
    updated = fields.get("updated", 0.0)
    if not isinstance(updated, int | float):
        log.warning("%s does not say when it was updated", entry.key)
        updated = 0.0
    session = Session(
        app_name=app, user_id=user, id=session_id, state={**_state(fields, ""), **shared}, last_update_time=updated
    )
    session._storage_update_marker = entry.version  # noqa: SLF001
    return session


def _event(stored: Any) -> Event:
    if not {"id", "timestamp"} <= stored.keys():  # ADK would make up both
        message = "it has no id or no timestamp"
        raise ValueError(message)
    return Event.model_validate_json(json.dumps(stored))  # of JSON it reads base64 as bytes


def _field(name: str, prefix: str) -> str:
    return FIELD + quoted(name.removeprefix(prefix))


def _state(fields: dict[str, Any] | None, prefix: str) -> dict[str, Any]:
    """The state that a map holds."""
    found = {name.removeprefix(FIELD): value for name, value in (fields or {}).items() if name.startswith(FIELD)}
    return {prefix + unquoted(name): value for name, value in found.items()}


def _not_as_read(session: Session, *, is_there: bool) -> Exception:
    error: Exception = SessionNotFoundError(f"Session {session.id} not found.")
    if is_there:
        error = StaleSessionError(f"session {session.id} was modified in storage since it was read: read it again")
    return error
