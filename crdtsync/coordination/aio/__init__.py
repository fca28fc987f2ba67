"""Working together, for asyncio.

Open first: ``claims``. ``./dev generate`` makes the blocking side of these modules.

- ``claims``: claim a key, keep the claim, list claims
- ``quorum``: the same by votes
- ``work``: put tasks, work on them, list them
- ``asks``: wait for a person
- ``presence``: show oneself, and see who is here
- ``reactions``: a handler for each change, once per role
- ``model``: keys by the fields of a class
- ``private``: a place of one agent's own
"""
