"""JSON Schemas of tools in fewer tokens: every client hands all of them to its model, with each request."""

from __future__ import annotations

from typing import Any

_NOISE = ("title", "$schema")
_NOISE_OF_OUTPUTS = (*_NOISE, "description", "required")


def slim(schema: Any, *, is_output: bool = False) -> Any:  # JSON of any shape
    """``schema`` without what says nothing: titles, and ``null`` for what may be left out; of an output also
    descriptions, what it always has, and the type of what may be null.

    What a tool takes or gives is valid still.
    """
    if isinstance(schema, list):
        return [slim(one, is_output=is_output) for one in schema]
    if not isinstance(schema, dict):
        return schema
    noise = _NOISE_OF_OUTPUTS if is_output else _NOISE
    kept = {name: one for name, one in schema.items() if name not in noise or isinstance(one, dict)}
    if kept.get("additionalProperties") is True:
        del kept["additionalProperties"]
    either = kept.get("anyOf")
    if isinstance(either, list) and len(either) == 2 and {"type": "null"} in either:
        del kept["anyOf"]
        if not is_output:
            kept |= next(one for one in either if one != {"type": "null"})
    if kept.get("default", ...) is None:
        del kept["default"]
    return {name: slim(one, is_output=is_output) for name, one in kept.items()}
