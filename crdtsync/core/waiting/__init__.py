"""waiting."""
