"""A small fleet of real daemons on this machine, to try things out: ``./dev up``."""
