"""Registering the server with the clients on this machine, in their own files of settings.

Open first: ``clients``, the table of clients that are known. Then ``change`` for how a file is changed.

How ``crdtsync mcp install --client codex`` goes: ``clients`` says that Codex keeps its servers in
``~/.codex/config.toml`` under ``mcp_servers``. ``change`` puts one table there and leaves every other byte as it was;
the command shows the difference before it writes. ``uninstall`` takes the table out again.

Modules:

- ``clients``: which clients there are, where their settings lie, and how they name a server
- ``change``: a file with the server in it, or without it
- ``hooks``: a file of hooks with ours in it, or without them
- ``jsonc``: JSON with comments: where a member begins and ends

May import: ``crdtsync.context.extras``, ``crdtsync.errors``, and the package ``tomlkit`` when it is needed.
"""
