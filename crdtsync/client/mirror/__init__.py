"""Copies of keys in an agent's own process: what one holds, how it takes in what the daemon tells, how it is read."""
