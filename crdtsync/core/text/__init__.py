"""Text: the texts of a space as Yjs documents.

The key of a text holds a *marker*: an entry that names a document by the dot of its first marker. The document
itself is Yjs'. Every edit is an operation that carries a Yjs update and rewrites the marker, so deletion, siblings
and causal order work as for every other key.

The danger: the Yjs library can panic or kill the process on hostile bytes. So every update first passes a validator
of our own (``crdtsync.wire.yjs.validator``), and only ``yjs_library`` and ``map_making`` may call it. After any
exception of it the document in memory is never used again; it is read anew from disk.

A document grows with every edit, so now and then a *compaction* makes a fresh one of it. That has the same characters
under the same ids, and has forgotten the deleted ones. An edit of the older document is made in the newer one too, on
every node that applies it, so it is never too late.

Open first: :class:`~crdtsync.core.text.document.Document`, one text, then
:class:`~crdtsync.core.text.document_cache.Documents`, all those of a space, then ``forgetting``. A replica applies
edits through :class:`crdtsync.core.replica.text_edits.TextEdits`.

Modules:

- ``yjs_library``: the door to pycrdt in the core
- ``map_making``: how the map of a document is made to say what another says
- ``judging``: whether an edit, or another replica's whole document, may be taken in
- ``document``: one Yjs document in memory: check, apply, undo, read
- ``document_cache``: the documents of a space, loaded at their first use, unloaded when idle
- ``marker``: the entries that name documents, and the operations that write them
- ``drafted_edits``: the edits of one document in a change in the making
- ``taking_ahead``: where the edits of a change are made: in the documents at once, or ahead in copies, over turns
- ``length_limit``: how long a text may become by a local edit
- ``digest``: what the texts of a space add up to, hashed little by little
- ``forgetting``: compaction: a document made anew without what was deleted from it
- ``family``: which documents are one text, by compaction
- ``places``: where the characters of a document stand, deleted ones too
- ``passing``: how an edit of a document is made in a newer one
- ``like_then``: the edit by which a restore brings back a text, and the map of a document
- ``word_merge``: the union of plain texts, by words

May import: the rooms of the core below it: ``storage`` and ``crdt``; beside these ``crdtsync.wire``,
``crdtsync.causality``, ``crdtsync.differences``, ``crdtsync.errors``; and pycrdt in ``yjs_library`` and
``map_making``. The
operations of the kind *text* are in ``crdtsync.core.kinds.text``.
"""
