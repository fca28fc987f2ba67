"""``crdtsync top``: a node, its peers and its busiest keys, as they go."""
