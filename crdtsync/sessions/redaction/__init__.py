"""Secrets out of a session's lines before anything of them is stored or sent.

Open first: ``redactor``. ``patterns`` is the table of what is known to be a secret.

Example: ``"output": "GITHUB_TOKEN=ghp_16C7…"`` becomes ``"output": "GITHUB_TOKEN=[redacted:github-token:1]"``. The same
secret gets the same mark wherever it stands in the file and however often it is saved, and the mark says nothing of it.

Modules:

- ``patterns``: known forms of secrets
- ``own``: the user's patterns
- ``redactor``: lines in, lines without secrets out, with a count by kind

May import: ``crdtsync.errors``.
"""
