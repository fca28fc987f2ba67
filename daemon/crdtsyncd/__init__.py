"""The crdtsync daemon: the thin shell of sockets, disk and clock around :mod:`crdtsync.core`."""
