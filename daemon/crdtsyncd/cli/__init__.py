"""The ``crdtsync`` command: a thin shell over :class:`crdtsync.client.Client`.

A whole process has to answer in 100 ms, so nothing here is imported before it is needed: a command's module when that
command runs, rich when a table goes to a terminal, pycrdt when a text is edited.
"""
