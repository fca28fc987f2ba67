"""Decodes the encoded parts of a checkpoint, back to objects, if these are data.

Agent Framework stores what JSON cannot hold as pickles, and other agents of the fleet may have written them. Its own
decoder lets a pickle call each class that a module of the framework has imported. One of these evaluates text: a
``TypeAdapter`` of pydantic's. So here a pickle may name data alone: plain values of Python, messages and events of
the framework, models of OpenAI's, and what the program has allowed.
"""

from __future__ import annotations

import base64
import dataclasses
from enum import Enum
from typing import Any

from agent_framework import Content, WorkflowCheckpointException, WorkflowEvent
from agent_framework._serialization import SerializationMixin
from agent_framework._workflows import _checkpoint_encoding as framework
from pydantic import BaseModel

FRAMEWORK = ("agent_framework.", "agent_framework_orchestrations.")
TYPES = "agent_framework._types"


def decoded(value: Any, allowed: frozenset[str]) -> Any:
    """The value given to ``encode_checkpoint_value``. ``allowed`` are classes of the program, as ``"module:name"``.

    :raises WorkflowCheckpointException: it holds something else, or is damaged.
    """
    if isinstance(value, list):
        return [decoded(each, allowed) for each in value]
    if not isinstance(value, dict):
        return value
    if framework._PICKLE_MARKER not in value or framework._TYPE_MARKER not in value:  # noqa: SLF001
        return {name: decoded(each, allowed) for name, each in value.items()}
    registered = framework._REGISTERED_CHECKPOINT_TYPE_KEYS  # noqa: SLF001
    try:
        return _OfData(base64.b64decode(value[framework._PICKLE_MARKER]), allowed | registered).load()  # noqa: SLF001
    except Exception as error:
        raise WorkflowCheckpointException(f"a value of a checkpoint cannot be read: {error}") from error


class _OfData(framework._RestrictedUnpickler):  # noqa: SLF001
    def find_class(self, module: str, name: str) -> Any:
        """The class that a pickle names, by the framework's rules and by those of this module."""
        found = super().find_class(module, name)
        named = f"{module}:{name}"
        if named in self._allowed_types or _is_data(found) or (module in PLAIN and found is not type):
            return found
        raise WorkflowCheckpointException(f"{named} is no data: if it is a class of yours, allow it")


PLAIN = frozenset(("__builtin__", "builtins", "collections", "copyreg", "datetime", "decimal", "uuid"))
"""Modules of whose names the framework allows what is safe, but for ``type``, which can make any class."""


def _is_data(found: Any) -> bool:
    if not isinstance(found, type):
        return False
    if found.__module__.startswith("openai.types."):
        return issubclass(found, BaseModel)
    if not found.__module__.startswith(FRAMEWORK):
        return False
    is_message = found.__module__ == TYPES and issubclass(found, SerializationMixin | Content)
    return is_message or dataclasses.is_dataclass(found) or issubclass(found, Enum | WorkflowEvent)
