"""One daemon under more than it is used to: what becomes of those who do nothing wrong, and of its memory.

``./dev load`` attaches 1,000 agents, of whom 200 watch everything and read nothing, beside peers that never read, while
values of 1 MiB are written and 10,000 spaces stand. ``./dev load --keys 1000000`` is about the number of keys.
"""
