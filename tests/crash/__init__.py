"""One daemon that is killed, or whose calls to the disk fail, at every point in turn: what it acknowledged is there.

``./dev crash kills --count 500``, ``./dev crash points``, ``./dev crash steps``, ``./dev crash errors``,
``./dev crash power --cuts 1000``.
"""
