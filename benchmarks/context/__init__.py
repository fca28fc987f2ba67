"""What agents are given to read, measured: ``./dev bench context``.

- ``corpora``: texts that real programs wrote on this machine
- ``questions``: questions about them, with their answers
- ``held_out``: other texts and questions, which nothing was fitted to
- ``flow``: five agents on three hosts, and what their prompts take
- ``command``: the figures, and their bounds
"""
