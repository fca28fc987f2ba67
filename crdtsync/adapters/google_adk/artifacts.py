"""Google ADK's artifacts: files of a session or of a user, in versions, each a blob.

google-adk/artifact/APP/USER/SESSION/FILE/VERSION    a file of a session
google-adk/user-artifact/APP/USER/FILE/VERSION       a file of the user

A blob's ``meta`` says what kind of part it is: {"part": without its bytes, "custom": …, "created": …}.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from crdtsync.adapters.attached import Attached
from crdtsync.adapters.readable import readable
from crdtsync.adapters.threads import reading, writing
from crdtsync.errors import KindMismatch, VersionMismatch

if TYPE_CHECKING:
    from crdtsync.client import Entry

log = logging.getLogger(__name__)

REFERENCES_MAX = 5
NUMBER_CHARS = 10
OF_USER = "user:"


class CrdtArtifactService(Attached, BaseArtifactService):
    """Keeps artifacts on this host's disk and on every other host.

    Arguments are those of :class:`~crdtsync.adapters.attached.Attached`. An artifact has at most the
    daemon's ``blob_bytes_max`` (1 GiB), and is in memory as a whole while it is saved or loaded. Its name belongs to
    the user, and not to the session, if it begins with ``user:`` or no session is named. The rule ``redact`` sees its
    text, but not its bytes.

    Of a version that two hosts save at once, the newer one is loaded, and the other one stands beside it as a sibling.
    """

    PREFIX = "google-adk"

    def _place(self, app: str, user: str, file: str, session: str | None) -> str:
        """The keys of all versions begin so."""
        for name, value in (("app_name", app), ("user_id", user), ("session_id", session)):
            if value is not None:
                artifact_util.validate_path_segment(value, name)
        if session is None or file.startswith(OF_USER):
            return self._keys.below("user-artifact", app, user, file.removeprefix(OF_USER))
        return self._keys.below("artifact", app, user, session.strip(), file)  # a session's id is kept so

    @writing
    def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Save a new version; its number, from 0 on.

        :raises InputValidationError: the part has neither bytes, text nor the address of a file.
        """
        part = ensure_part(artifact)
        scope = _scope(app_name, user_id, session_id)
        if artifact_util.is_artifact_ref(part):
            artifact_util.resolve_artifact_reference(file_uri=part.file_data.file_uri, remaining_depth=1, **scope)
        elif part.inline_data is None and part.text is None and part.file_data is None:
            message = "Not supported artifact type."
            raise InputValidationError(message)
        place = self._place(app_name, user_id, filename, session_id)
        data = (part.inline_data.data or b"") if part.inline_data else self._redacted(part.text or "").encode()
        without = {"inline_data": {"data"}, "text": True}
        known = json.loads(part.model_dump_json(exclude_none=True, exclude=without))
        meta = self._redacted({"part": known, "custom": custom_metadata or {}})
        while True:
            version = max(self._versions(place), default=-1) + 1
            try:
                self._client.put_blob(
                    f"{place}{version:010}", data, media_type=_media_type(part), if_absent=True,
                    meta={**meta, "created": time.time()}, w=self._w,
                )  # fmt: skip
            except VersionMismatch:
                continue  # somebody else on this host has saved one meanwhile
            return version

    @reading
    def load_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> types.Part | None:
        """A version, or the newest one that can be read; None if there is none. References to other artifacts are
        followed.

        :raises InputValidationError: what is there cannot be read.
        """
        scope = _scope(app_name, user_id, session_id)
        file, of = filename, session_id
        for depth in range(REFERENCES_MAX, -1, -1):
            part = self._load(self._place(app_name, user_id, file, of), version)
            if part is None or not artifact_util.is_artifact_ref(part):
                return part
            named = artifact_util.resolve_artifact_reference(
                file_uri=part.file_data.file_uri, remaining_depth=depth, **scope
            )
            file, of, version = named.filename, named.session_id, named.version
        return None

    def _load(self, place: str, version: int | None) -> types.Part | None:
        error: InputValidationError | None = None
        for number in sorted(self._versions(place), reverse=True) if version is None else [version]:
            if error is not None:
                log.warning("the artifact before it counts: %s", error)
            try:
                return self._part(f"{place}{number:010}")
            except InputValidationError as unreadable:
                error = unreadable
        if error is not None:
            raise error
        return None

    def _part(self, key: str) -> types.Part | None:
        """The artifact that a key holds; None if it holds none.

        :raises InputValidationError: it cannot be read.
        """
        try:
            return self._loaded(key)
        except (AttributeError, KindMismatch, TypeError, ValueError) as error:
            message = f"{key} cannot be read: {error}"
            raise InputValidationError(message) from error

    def _loaded(self, key: str) -> types.Part | None:
        blob = self._client.get_blob(key)
        if blob is None:
            return None
        with blob:
            data, meta = blob.read(), blob.entry.meta or {}
        part = types.Part.model_validate_json(json.dumps(meta.get("part", {})))
        if part.inline_data is not None:
            part.inline_data.data = data
            if not data and part.inline_data.mime_type == "application/octet-stream":
                return None  # so ADK marks what a rewound session no longer has
        elif part.file_data is None:
            part.text = data.decode()
        return part

    @reading
    def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """The names of the artifacts of the user, and of the session if one is given, sorted."""
        below = self._keys.below("user-artifact", app_name, user_id)
        names = [OF_USER + self._keys.names(each)[2] for each in self._client.keys(below, delimiter="/").prefixes]
        if session_id is not None:
            below = self._keys.below("artifact", app_name, user_id, session_id.strip())
            names += [self._keys.names(each)[3] for each in self._client.keys(below, delimiter="/").prefixes]
        return sorted(names)

    @writing
    def delete_artifact(self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None) -> None:
        """Delete all versions that this host has."""
        self._client.delete_prefix(self._place(app_name, user_id, filename, session_id), w=self._w)

    @reading
    def list_versions(self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None) -> list[int]:
        """The numbers of all versions."""
        return self._versions(self._place(app_name, user_id, filename, session_id))

    def _versions(self, place: str) -> list[int]:
        return [number for key in self._client.keys(place) if (number := _number(key)) is not None]

    @reading
    def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """All versions, with what is known of them."""
        place = self._place(app_name, user_id, filename, session_id)
        owner = None if filename.startswith(OF_USER) else session_id
        entries = self._client.entries(place, values=False)
        stored = [each for each in entries if _number(each.key) is not None]
        found = readable(place, stored, lambda entry: _version(entry, app_name, user_id, filename, owner))
        return [version for _, version in found]

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> ArtifactVersion | None:
        """A version, or the newest one, with what is known of it; None if there is none."""
        versions = await self.list_artifact_versions(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id
        )
        return next((each for each in reversed(versions) if version in (None, each.version)), None)


def _scope(app: str, user: str, session: str | None) -> dict[str, Any]:
    """What a reference must be of."""
    return {"app_name": app, "user_id": user, "session_id": session and session.strip()}


def _number(key: str) -> int | None:
    """The version that a key holds; None if somebody else has made it."""
    name = key.rpartition("/")[2]
    return int(name) if len(name) == NUMBER_CHARS and name.isdecimal() else None


def _media_type(part: types.Part) -> str | None:
    if part.inline_data is not None or part.file_data is not None:
        known: str | None = (part.inline_data or part.file_data).mime_type
        return known
    return "text/plain"


def _version(entry: Entry, app: str, user: str, file: str, session: str | None) -> ArtifactVersion:
    meta, number = entry.meta or {}, _number(entry.key)
    part = types.Part.model_validate_json(json.dumps(meta.get("part", {})))
    return ArtifactVersion(
        version=number, canonical_uri=artifact_util.get_artifact_uri(app, user, file, number, session),
        custom_metadata=meta.get("custom", {}), create_time=meta.get("created", 0.0), mime_type=_media_type(part),
    )  # fmt: skip
