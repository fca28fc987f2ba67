"""Config: the settings of the daemon, where they come from, and how the daemon ends.

Open first: :class:`~crdtsyncd.config.model.Config`: each setting with its default, its bounds and its description.
Options override the environment (``CRDTSYNC_…``), which overrides the TOML file, which overrides the defaults. An
unknown key in the file is an error.

Example: ``crdtsyncd --listen 0.0.0.0:7420`` starts. ``main`` hands the option to ``model.load_config``, which checks
it with the file and the environment; ``serve`` gets a finished ``Config``, or an error names the key, the value and
what is allowed.

Modules:

- ``model``: the settings, and where they are looked for
- ``checks``: what is allowed as a value
- ``invite_argument``: an invite that stands in a file or on stdin, where no other user sees it
- ``host_port``: ``HOST:PORT``, and which hosts are this machine
- ``exit_status``: how the daemon ends, and the errors that have a status of their own

To add a setting: a field in ``model``, a row in the page of settings in ``docs`` (a test compares), and a line in
the changelog.

May import: ``wording``, ``crdtsync.errors``, ``crdtsync.wire``, and of the core only names of caps and quotas.
"""
