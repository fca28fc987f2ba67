"""Views: the part of the shared state that one agent should read, within a budget of tokens that is never exceeded.

Open first: ``aio`` for how a view is asked for; ``blocking`` is the same without asyncio, generated from it. Then
``choose`` for what goes into it.

How ``views.view(["plan/", "findings/"], budget_tokens=2000, query="disk")`` goes: ``aio`` reads the entries under the
two prefixes. ``items`` makes each of them a text with its key, author and time. ``choose`` scores them: pinned ones
first, then by how new they are, how much they speak of disks, and how sure their authors were; the best are
written in full, further ones compactly, as long as tokens are left. ``render`` puts the chosen ones into one block,
those that have not changed for longest first, so that a provider's prompt cache finds the beginning it knows; the
last lines say what was left out and how to get it.

Nothing here looks at a clock: two hosts that hold the same state show the same view.

Modules:

- ``items``: entries of the state as texts
- ``choose``: which items are shown, and whether in full or compactly
- ``render``: the block of text, as Markdown, XML or JSON
- ``held``: what a view was made of, kept for the next time
- ``definition``: a named view, as it is stored and shared
- ``alarm``: a view whose sources outgrow it
- ``summary``: what a named view shows in the place of its older entries
- ``aio``: :class:`AsyncViews`
- ``blocking``: :class:`Views`

May import: ``crdtsync.context.shared``, ``crdtsync.context.compact``, ``crdtsync.context.tokens``, the public client.
"""
