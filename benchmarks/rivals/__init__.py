"""crdtsync beside others, in one run on one machine: ``./dev bench rivals``.

Every figure of every system is measured in several rounds, the systems in turn within each round, so that what else the
machine does falls on all of them alike. What is told are medians over the rounds, and their ratio to the first system.
"""
