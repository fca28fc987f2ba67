"""Backup: a copy of everything that a daemon holds, made while it runs; and a daemon out of such a copy.

Open first: :class:`~crdtsyncd.backup.backup.Backups`. A thread copies the database through a read transaction of a
connection of its own, so commits go on and are not in the copy. Then the copy goes to the agent that asked, in
pieces; the file that the agent writes is described in ``crdtsync.client.operations.backup_file``.

Example: ``crdtsync backup state.backup`` on a host, then ``crdtsync restore state.backup`` on a new one. The restored
database is a copy that went back in time: peers may have seen change numbers that it does not know. So it gets a new id
and keeps no writer; on another machine it is another node, with another key. The changes that it lacks come from its
peers.

Modules:

- ``backup``: backups of the running database, one at a time
- ``restore``: puts a backup in the place of a database; the daemon must not run
- ``act_as_owner``: root works in the directory of a service's user with that user's rights
- ``set_database_aside``: moves a node's database away and begins another one, when the node joins a cluster

May import: ``storage``, ``security``, ``telemetry``, ``service``, ``config``, ``wording``, and ``crdtsync``.
"""
