"""The digest of a space's texts, worked out little by little while nothing else happens.

The digest of the entries says which document a key names, not what is in it. Each document is hashed anew after an
edit; the sum is that of the documents that live entries name, which nodes with the same changes agree on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtsync.core.crdt.entries import DIGEST_MODULUS
from crdtsync.core.text.marker import named_document

if TYPE_CHECKING:
    from crdtsync.core.text.document_cache import Documents

NO_TEXTS = bytes(16)
"""The digest of no texts."""


def texts_digest(documents: Documents, documents_max: int) -> bytes | None:
    """The sum of the hashes of all texts; None: some are not known yet. At most so many are worked out now."""
    hashes = documents.hashes
    if len(hashes) > 2 * len(documents.names()) + documents_max:  # documents that nobody names any more
        for name in hashes.keys() - documents.names():
            del hashes[name]
    missing = [name for name in documents.names() if name not in hashes]
    for name in missing[:documents_max]:
        hashes[name] = documents.content_hash(named_document(name))
    if len(missing) > documents_max:
        return None
    total = sum(hashes[name] for name in documents.names())
    return (total % DIGEST_MODULUS).to_bytes(16, "big")
