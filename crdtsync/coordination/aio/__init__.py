"""Working together, for asyncio.

Open first: ``claims``. ``./dev generate`` makes the blocking side of these modules.

- ``claims``: claim a key, keep the claim, list claims
- ``work``: put tasks, work on them, list them
"""
