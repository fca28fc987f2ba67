"""A small set of edits that turns one text into another, found in bounded time.

Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), first over lines, then over the characters of each
changed block. Beyond a bounded number of differences a block is replaced as a whole: the result is right, only less
fine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

LINE_DIFFERENCES_MAX = 400
CHARACTER_DIFFERENCES_MAX = 150

LINES_MAX = 50_000
"""Lines of the part of a text that differs; with more it is one block."""

STEPS_MAX = 100_000
"""Steps that comparing two texts may take, at 0.5 µs each; what is not compared by then is replaced as a whole."""

_EQUAL_NEAR = 1000  # so many elements that are equal are gone through one by one
_EQUAL_A_STEP = 8  # in the time of a step so many


class Effort:
    """How many steps are ``left`` of those that comparing two texts may take, in all of their blocks together."""

    __slots__ = ("left",)

    def __init__(self, left: int = STEPS_MAX) -> None:
        self.left = left


Edit = tuple[int, int, str]
"""``(start, end, replacement)`` of code points in the old text."""


def edits(old: str, new: str) -> list[Edit]:
    """The edits from ``old`` to ``new``, in ascending order and not touching each other; apply them from the last to
    the first.
    """
    found: list[Edit] = []
    effort = Effort()
    for start, end, new_start, new_end in changed_lines(old, new, effort):
        for a, b, c, d in _narrow(old[start:end], new[new_start:new_end], effort):
            found.append((start + a, start + b, new[new_start + c : new_start + d]))
    return found


Span = tuple[int, int, int, int]
"""``old[a:b]`` becomes ``new[c:d]``."""


def changed_lines(old: str, new: str, effort: Effort | None = None) -> Iterator[Span]:
    """Changed blocks of whole lines, in code points."""
    prefix = common_prefix(old, new)
    prefix = old.rfind("\n", 0, prefix) + 1
    suffix = common_prefix(old[prefix:][::-1], new[prefix:][::-1])
    if suffix and suffix < max(len(old), len(new)) - prefix:
        newline = old.find("\n", len(old) - suffix)
        suffix = len(old) - newline - 1 if newline >= 0 else 0
    old_end, new_end = len(old) - suffix, len(new) - suffix
    if max(_line_ends(old, prefix, old_end), _line_ends(new, prefix, new_end)) > LINES_MAX:
        yield prefix, old_end, prefix, new_end
        return
    old_lines = old[prefix:old_end].splitlines(keepends=True)
    new_lines = new[prefix:new_end].splitlines(keepends=True)
    old_starts, new_starts = _starts(prefix, old_lines), _starts(prefix, new_lines)
    for a, b, c, d in changes(old_lines, new_lines, LINE_DIFFERENCES_MAX, effort):
        yield old_starts[a], old_starts[b], new_starts[c], new_starts[d]


def _narrow(old: str, new: str, effort: Effort) -> Iterator[Span]:
    """Changed characters within a block."""
    prefix = common_prefix(old, new)
    suffix = common_prefix(old[prefix:][::-1], new[prefix:][::-1])
    inner_old, inner_new = old[prefix : len(old) - suffix], new[prefix : len(new) - suffix]
    # If two texts share little, replacing the whole reads better than keeping a letter here and there.
    differences_max = min(CHARACTER_DIFFERENCES_MAX, max(4, (len(inner_old) + len(inner_new)) // 3))
    for a, b, c, d in changes(inner_old, inner_new, differences_max, effort):
        yield prefix + a, prefix + b, prefix + c, prefix + d


def _line_ends(text: str, start: int, end: int) -> int:
    return sum(text.count(line_end, start, end) for line_end in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")


def _starts(first: int, lines: Sequence[str]) -> list[int]:
    starts = [first]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts


def common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the common prefix, by bisection: comparing slices runs in C."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def changes(
    old: Sequence[str], new: Sequence[str], differences_max: int, effort: Effort | None = None
) -> Iterator[Span]:
    """The spans that changed between two sequences; all of it if there are more differences, or it takes more, than
    allowed.
    """
    if not old or not new:
        if old or new:
            yield 0, len(old), 0, len(new)
        return
    trace = _forward(old, new, differences_max, effort or Effort())
    if trace is None:
        yield 0, len(old), 0, len(new)
        return
    a, c = 0, 0
    for x, y, length in [*_snakes(trace, len(old), len(new)), (len(old), len(new), 0)]:
        if x > a or y > c:
            yield a, x, c, y
        a, c = x + length, y + length


def _forward(
    old: Sequence[str], new: Sequence[str], differences_max: int, effort: Effort
) -> list[dict[int, int]] | None:
    """Furthest x reached on each diagonal k = x - y, for each number of differences; None if they are too many."""
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    old_length, new_length = len(old), len(new)
    for differences in range(min(differences_max, old_length + new_length) + 1):
        trace.append(dict(furthest))
        effort.left -= differences + 1
        if effort.left < 0:
            return None
        for k in range(-differences, differences + 1, 2):
            x = start = _step(furthest, k, differences)
            y = x - k
            near = min(x + _EQUAL_NEAR, old_length, new_length + k)
            while x < near and old[x] == new[y]:
                x += 1
                y += 1
            if x == near:
                x += common_prefix(old[x:], new[y:])
                y = x - k
            furthest[k] = x
            effort.left -= (x - start) // _EQUAL_A_STEP
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
