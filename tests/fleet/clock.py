"""When every fleet begins."""

START_MS = 1_800_000_000_000
