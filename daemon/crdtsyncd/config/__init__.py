"""Config: the settings of the daemon, where they come from, and how the daemon ends.

Open first: :class:`~crdtsyncd.config.model.Config`: each setting with its default, its bounds and its description.
Options override the environment (``CRDTSYNC_…``), which overrides the TOML file, which overrides the defaults. An
unknown key in the file is an error.

The settings are read in another process: what checks them (pydantic) takes 7 MB of memory for good, and the daemon
needs it for a tenth of a second. ``loader`` forks for that as long as the process has a single thread, and starts a
new process for a reload.

Example: ``crdtsyncd --listen 0.0.0.0:7420`` starts. ``main`` hands the option to ``loader.Reading``; the child
checks it with the file and the environment; ``serve`` gets a finished ``Config`` or an error that names the key,
the value and what is allowed.

Modules:

- ``model``: the settings, and where they are looked for
- ``loader``: the settings, read in another process
- ``invite_argument``: an invite that stands in a file or on stdin, where no other user sees it
- ``host_port``: ``HOST:PORT``, and which hosts are this machine
- ``exit_status``: how the daemon ends, and the errors that have a status of their own

To add a setting: a field in ``model``, a row in the page of settings in ``docs`` (a test compares), and a line in
the changelog.

May import: ``wording``, ``crdtsync.errors``, ``crdtsync.wire``, and of the core only names of caps and quotas.
"""
