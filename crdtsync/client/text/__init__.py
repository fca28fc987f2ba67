"""Texts: the replica of a Yjs document that a session edits, and the plans that keep it in step with the daemon.

There are two ways to edit a text:

- A *text* (``state.text("notes")``): each edit is one request. Positions mean the text as this session last read
  it, so an edit is made in the session's own replica and goes out as a Yjs update.
- An *editor* (``state.editor("notes")``): for typing. Keystrokes are taken at once and sent in the background.

How an editor works: a keystroke changes only what is *typed*, runs of keystrokes that are not in the Yjs document
yet. When nothing is under way, the runs become one transaction of the document, and its update goes out; when the
answer comes, the next. Updates of others wait until the typist reads. So every edit is made on exactly what its
author had read, and positions need no transformation. An update that is sent twice counts once, so it is sent again
whatever happened.

Open first: ``operations`` for texts, :class:`~crdtsync.client.text.editor_state.Editing` for editors.

Modules:

- ``operations``: every operation on texts as a plan
- ``tree``: a document's nested maps and lists, by paths
- ``replica``: a session's own replica of one text
- ``replica_cache``: the texts that a session holds, bounded
- ``carrying``: the edits of a text for another space
- ``editor_state``: an editor without its connection
- ``typed_buffer``: what was typed and is not in the document yet
- ``piece_table``: a long text in pieces, with positions in code points and in bytes
- ``update_queue``: what an editor has to send
- ``send_updates``: the plans of an editor: fetch, send
- ``yjs``: the Yjs library, an extra: who needs it and has it not is told what to install

May import: ``operations``, ``streams``, ``session``, ``protocol``, ``values``, ``crdtsync.differences``,
``crdtsync.errors``, and pycrdt (``yjs`` here and ``crdtsync.core.text.yjs_library`` alone).
"""
