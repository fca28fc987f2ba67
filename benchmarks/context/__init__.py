"""What agents are given to read, measured: ``./dev bench context``.

- ``corpora``: texts that real programs wrote on this machine
- ``questions``: questions about them, with their answers
- ``command``: the figures, and their bounds
"""
