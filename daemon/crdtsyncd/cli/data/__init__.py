"""Data: what files and pipes hold: JSON values, lines of exports and batches.

JSON is strict on the way in and exact on the way out and back. JSON has no bytes, so they are written ``{"$bytes":
base64}``.

Open first: ``json_values``, then ``export_records``: one key as one line of an export.

Example: ``crdtsync export plan/ | crdtsync --socket OTHER import -``. Each line is a record with key, kind and
value. ``importer`` reads what the other daemon holds of these keys, decides by ``--on-conflict`` what becomes of
each, and writes in batches, never over what came between the read and the write.

Modules:

- ``json_values``: values as JSON text, both ways
- ``ndjson``: one JSON value a line
- ``value_form``: a value as a document that a program or a person works on
- ``kinds``: what export, import and batch know of each kind; ``fields``: what a field of a line may hold
- ``batch_lines``: the lines of a batch file
- ``export_records``: one key as one line of an export
- ``importer``: writing the records of an import
- ``redis_keys``: the keys of a Redis server as lines of an export
- ``mem0_memories``: memories of mem0, likewise
- ``join_and_merge``: joining a cluster with what this node holds

May import: the rest of ``crdtsyncd.cli`` but ``commands``, the rooms of the daemon below it, and the public client.
"""
