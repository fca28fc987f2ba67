"""Schemas of a space: what is declared for all keys of a pattern, and what that does to a write.

Open first: ``declare`` (:mod:`crdtsync.core.replica.schemas.declare`). A schema is an ordinary value under the reserved
key ``_schema/PATTERN``, so it replicates as any other does.

Example: ann declares ``cache/*`` with at most 500 keys. Her node writes the schema. When bob's node has it, it holds
bob's next write against it (``kinds.schema_check``). If that makes a 501st key, the oldest goes in the same change
(``caps``). A node never checks other nodes' writes against a schema: every node must take in every valid change.

Modules:

- ``declare``: the request that sets schemas
- ``caps``: what goes when a write is one too many

May import: what :mod:`crdtsync.core.replica` may. How schemas are told from values is in ``crdt``.
"""
