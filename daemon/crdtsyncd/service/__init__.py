"""Service: the daemon as a service of systemd: its units, and what a running service tells its manager.

Open first: ``install_units``. ``crdtsync service install`` calls it: it writes the units, enables and starts them.
Every step is idempotent: what stands already is left as it is. The units themselves are in the folder ``systemd``
of the checkout.

Example: ``systemctl start crdtsyncd`` starts the daemon. It tells the manager ``READY=1`` once agents and peers are
served, then a line of status, and, as long as its turns go on, that the watchdog may rest. If its loop hangs, the
manager kills it.

Modules:

- ``install_units``: puts units in place, takes them away, says what the manager knows of them
- ``diagnose_units``: why a unit does not run, and what to do
- ``sd_notify``: readiness, reload, watchdog, sockets that the manager opened; without systemd all of it does
  nothing

May import: ``config``, ``wording``, ``crdtsync.errors``.
"""
