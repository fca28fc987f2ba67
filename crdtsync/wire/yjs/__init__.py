"""Yjs on the wire: reading the updates of texts, and refusing those that would harm.

A text is edited by Yjs, and an edit travels as a Yjs *update*: bytes that an agent made. The library that merges them,
pycrdt, trusts what it is given. With bad bytes, pycrdt raises what is no ``Exception``, skips a gap without a word, or
hangs at a later read. So no update reaches pycrdt before this room has passed it.

Open first: :mod:`~crdtsync.wire.yjs.validator`. For example, an agent sends an update that inserts ``hi``. The daemon
calls ``validate_update`` with it before the commit, and every other daemon does the same before it merges.

From the bytes upwards:

- ``lib0``: the integers, strings and values that Yjs is written in, read with bounds
- ``encoding``: an update is structs and deleted ranges; reads both
- ``state_vector``: how far a replica of a text has got
- ``competition``: how long Yjs may take to put the items of a document in order
- ``validator``: whether an update fits the document that it is for
- ``order``: in which order the characters of a document stand
- ``rewriting``: an update with other neighbours or other content; what a compaction writes

For what Yjs would not have written, ``validator`` and ``state_vector`` raise ``InvalidUpdate`` of ``lib0``. The two
below them also raise IndexError, where the data ends inside a value: the caller says what it was reading.

May import: nothing but the standard library. Not pycrdt: the one door to that is
:mod:`crdtsync.core.text.yjs_library`.
"""
