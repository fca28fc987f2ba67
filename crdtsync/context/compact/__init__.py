"""Compact: the same content in fewer tokens, without a model.

Open first: ``compress``, for the one function of this room and how it keeps a budget. Then the module of a kind.

How ``compress(answer, budget=800)`` goes: ``detect`` says that the text is JSON. ``json_text`` writes its array of 500
records as a table and says which columns it pulled out. If that takes more than 800 tokens, ``compress`` asks again
with a higher *level*, at which more may be left out: first long strings, then rows in the middle. Whatever was left
out is named in the text and in :class:`~crdtsync.context.compact.result.Compact`.

Every module here promises:

- The same text gives the same result, on every host.
- Any text is taken: what cannot be parsed as its kind is taken as plain text.
- Numbers, identifiers, paths, errors and negations go last.

Modules:

- ``compress``: the public function: kind, levels, budget
- ``detect``: what kind of content a text is
- ``result``: what comes out: the text, what was done to it, what it left out
- ``json_text``: arrays of records as tables, the rest as indented lines
- ``tables``: one table: constant columns, common prefixes, repeated strings
- ``logs``: lines of one template counted, errors and rare lines kept
- ``traces``: paths and frames of traces once
- ``code``: signatures kept, bodies left out, by tree-sitter
- ``diffs``: changed lines kept, context left out
- ``markup``: HTML as text, Markdown by sections
- ``prose``: sentences chosen by what they say and by the query
- ``headroom``: the package headroom-ai in the place of all these
- ``lines``: the last resort: the beginning and the end
- ``words``: words of a text, and which ones tell the most

May import: ``crdtsync.context.tokens`` and ``crdtsync.context.extras``.
"""
