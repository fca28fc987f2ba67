"""A small set of edits that turns one text into another, found in bounded time.

Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), first over lines, then over the characters of each
changed block. Beyond a bounded number of differences a block is replaced as a whole: the result is right, only less
fine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

LINE_DIFFERENCES_MAX = 400
CHARACTER_DIFFERENCES_MAX = 150

Edit = tuple[int, int, str]
"""``(start, end, replacement)`` of code points in the old text."""


def edits(old: str, new: str) -> list[Edit]:
    """The edits from ``old`` to ``new``, in ascending order and not touching each other; apply them from the last to
    the first.
    """
    found: list[Edit] = []
    for start, end, new_start, new_end in changed_lines(old, new):
        for a, b, c, d in _narrow(old[start:end], new[new_start:new_end]):
            found.append((start + a, start + b, new[new_start + c : new_start + d]))
    return found


Span = tuple[int, int, int, int]
"""``old[a:b]`` becomes ``new[c:d]``."""


def changed_lines(old: str, new: str) -> Iterator[Span]:
    """Changed blocks of whole lines, in code points."""
    prefix = common_prefix(old, new)
    prefix = old.rfind("\n", 0, prefix) + 1
    suffix = common_prefix(old[prefix:][::-1], new[prefix:][::-1])
    if suffix and suffix < max(len(old), len(new)) - prefix:
        newline = old.find("\n", len(old) - suffix)
        suffix = len(old) - newline - 1 if newline >= 0 else 0
    old_lines = old[prefix : len(old) - suffix].splitlines(keepends=True)
    new_lines = new[prefix : len(new) - suffix].splitlines(keepends=True)
    old_starts, new_starts = _starts(prefix, old_lines), _starts(prefix, new_lines)
    for a, b, c, d in changes(old_lines, new_lines, LINE_DIFFERENCES_MAX):
        yield old_starts[a], old_starts[b], new_starts[c], new_starts[d]


def _narrow(old: str, new: str) -> Iterator[Span]:
    """Changed characters within a block."""
    prefix = common_prefix(old, new)
    suffix = common_prefix(old[prefix:][::-1], new[prefix:][::-1])
    inner_old, inner_new = old[prefix : len(old) - suffix], new[prefix : len(new) - suffix]
    # What shares little is not the old text edited: replacing it whole reads better than keeping a letter here and
    # there.
    differences_max = min(CHARACTER_DIFFERENCES_MAX, max(4, (len(inner_old) + len(inner_new)) // 3))
    for a, b, c, d in changes(inner_old, inner_new, differences_max):
        yield prefix + a, prefix + b, prefix + c, prefix + d


def _starts(first: int, lines: Sequence[str]) -> list[int]:
    starts = [first]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts


def common_prefix(one: str, other: str) -> int:
    """Length of the common prefix, by bisection: comparing slices runs in C."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def changes(old: Sequence[str], new: Sequence[str], differences_max: int) -> Iterator[Span]:
    """What changed between two sequences; all of it if there are more differences than allowed."""
    if not old or not new:
        if old or new:
            yield 0, len(old), 0, len(new)
        return
    trace = _forward(old, new, differences_max)
    if trace is None:
        yield 0, len(old), 0, len(new)
        return
    a, c = 0, 0
    for x, y, length in [*_snakes(trace, len(old), len(new)), (len(old), len(new), 0)]:
        if x > a or y > c:
            yield a, x, c, y
        a, c = x + length, y + length


def _forward(old: Sequence[str], new: Sequence[str], differences_max: int) -> list[dict[int, int]] | None:
    """Furthest x reached on each diagonal k = x - y, for each number of differences; None if they are too many."""
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    old_length, new_length = len(old), len(new)
    for differences in range(min(differences_max, old_length + new_length) + 1):
        trace.append(dict(furthest))
        for k in range(-differences, differences + 1, 2):
            x = _step(furthest, k, differences)
            y = x - k
            while x < old_length and y < new_length and old[x] == new[y]:
                x += 1
                y += 1
            furthest[k] = x
            if x >= old_length and y >= new_length:
                return trace
    return None


def _step(furthest: dict[int, int], k: int, differences: int) -> int:
    """Where diagonal ``k`` starts: below its upper neighbour (an insertion) or right of its lower one (a deletion)."""
    if k == -differences or (k != differences and furthest[k - 1] < furthest[k + 1]):
        return furthest[k + 1]
    return furthest[k - 1] + 1


def _snakes(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int, int]]:
    """The runs of equal elements on the way, as ``(x, y, length)`` in ascending order."""
    snakes: list[tuple[int, int, int]] = []
    for differences in range(len(trace) - 1, -1, -1):
        furthest, k = trace[differences], x - y
        start = _step(furthest, k, differences) if differences else 0
        if x > start:
            snakes.append((start, start - k, x - start))
        if not differences:
            break
        down = k == -differences or (k != differences and furthest[k - 1] < furthest[k + 1])
        x, y = (start, start - k - 1) if down else (start - 1, start - k)
    snakes.reverse()
    return snakes
