"""The kinds of values: each module holds one kind's write operations and how its value is read.

Merging knows nothing of this: it looks at dots alone.
"""
