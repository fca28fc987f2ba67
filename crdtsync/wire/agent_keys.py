"""Agent keys: what an agent proves its name with. ``ak1.SECRET.NAME``, the secret being 32 random bytes.

Nodes keep a hash of the secret alone. It is random, so a plain hash is as good as a slow one.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b

from crdtsync.errors import InvalidRequest
from crdtsync.wire.limits import is_name

SECRET_BYTES = 32
HASH_BYTES = 32
_FORM = "ak1"
_SECRET_CHARS = 43


def encode_agent_key(name: str, secret: bytes) -> str:
    """The key as it is handed out, once."""
    return f"{_FORM}.{urlsafe_b64encode(secret).decode().rstrip('=')}.{name}"


def hash_of_key(key: object, name: str) -> bytes:
    """The hash that nodes are told of a key that was made elsewhere for the agent ``name``.

    :raises InvalidRequest: it is none, or another's.
    """
    found, secret = decode_agent_key(key)
    if found != name:
        raise InvalidRequest(f"the key is of an agent {found}, not of {name}")
    return hash_of_secret(secret)


def decode_agent_key(key: object) -> tuple[str, bytes]:
    """Name and secret of a key.

    :raises InvalidRequest: it is none. The message does not repeat it.
    """
    form, _, rest = key.partition(".") if type(key) is str else ("", "", "")
    word, _, name = rest.partition(".")
    if form != _FORM or len(word) != _SECRET_CHARS or not is_name(name):
        raise InvalidRequest(f"what was given as an agent key is none: one begins with '{_FORM}.' and ends with a name")
    try:
        return name, urlsafe_b64decode(word + "=")
    except ValueError:
        raise InvalidRequest("what was given as an agent key is damaged") from None


def hash_of_secret(secret: bytes) -> bytes:
    """The hash of it, which nodes know."""
    return blake2b(secret, digest_size=HASH_BYTES, person=b"crdtsync-agent-k").digest()
