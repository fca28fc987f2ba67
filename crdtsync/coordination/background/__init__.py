"""Something that goes on beside its owner: a task under asyncio, else a thread. Written by hand on both sides.

Modules: ``aio``, ``blocking``.
"""
