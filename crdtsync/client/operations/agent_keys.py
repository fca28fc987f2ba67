"""Agent keys that are made by who will keep them, so that they are in a safe place before any node knows of them."""

from __future__ import annotations

from typing import Any

from crdtsync.wire.agent_keys import SECRET_BYTES, encode_agent_key, hash_of_key


def new_agent_key(name: str) -> str:
    """A key for the agent ``name``, to be stored and then given to ``agent_create``."""
    import secrets  # it takes ms to import

    return encode_agent_key(name, secrets.token_bytes(SECRET_BYTES))


def new_agent(name: str, key: str | None) -> dict[str, Any]:
    """The arguments of the request. None: it makes the key."""
    return {"name": name} if key is None else {"name": name, "hash": hash_of_key(key, name)}
