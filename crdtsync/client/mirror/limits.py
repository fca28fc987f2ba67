"""What a mirror may take up, unless its user says otherwise."""

MIRROR_KEYS_MAX = 100_000
"""In a mirror, unless its user says otherwise."""
MIRROR_BYTES_MAX = 64 * 1024 * 1024
"""In a mirror likewise: names and values, and about 400 a key."""
