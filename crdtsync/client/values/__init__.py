"""Values: what callers hand in and get back.

A value is anything that msgpack can hold and give back exactly. Other values (a set, a float that is no number, a key
that is no string) are refused with the path to the fault.

Example: ``state.set("k", {"a": [1, {2}]})`` raises ``InvalidValue`` with the path of the element that is a set.

Open first: ``results`` for what reads hand out (``Entry``, ``Event``, ``LogItem`` …), then ``write_result`` for
:class:`~crdtsync.client.values.write_result.Written`: the token of a write, a str with what else is known about it.

Modules:

- ``encoding``: values to msgpack and back
- ``packer``: one msgpack packer for all of this process
- ``durations``: seconds or timedelta to milliseconds; ``times``: times of the protocol to Python's
- ``patterns``: patterns of keys, for those who stand above the client
- ``points``: points of the past: tokens, checkpoints, times
- ``results``: entries, events, items of a log, members, fields, schemas, edits of a text
- ``write_result``: what a write gives back
- ``listing``: a list with the point that it shows
- ``version_merge``: versions of what was read of a key in parts, put together

May import: ``crdtsync.wire``, ``crdtsync.causality``, ``crdtsync.errors``. It is the lowest room of the client.
"""
