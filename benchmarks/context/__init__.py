"""What agents are given to read, measured: ``./dev bench context``.

- ``corpora``: texts that real programs wrote on this machine
- ``questions``: questions about them, with their answers
- ``flow``: five agents on three hosts, and what their prompts take
- ``command``: the figures, and their bounds
"""
