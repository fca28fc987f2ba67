"""The client for threads and scripts: blocking sockets, no thread of its own."""
