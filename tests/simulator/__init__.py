"""A fleet in one process, to prove promises with: real nodes, simulated time, network, disks and agents; one seed.

``python -m tests.simulator --seeds 1000`` plays that many histories. In Python, :func:`run_history` plays one.
The node and its database are the daemon's own; everything around them is under the control of a seed.
"""
