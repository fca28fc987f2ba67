"""What a mirror may take up, unless its user says otherwise."""

MIRROR_KEYS_MAX = 100_000
MIRROR_BYTES_MAX = 64 * 1024 * 1024
