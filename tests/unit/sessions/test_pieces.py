"""Files as chains of pieces, logs as trees: nothing is lost, whatever was saved where."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from crdtsync.sessions.saved.pieces import (
    HEAD_BYTES_MIN,
    PACKED,
    PACKED_WITH_HEAD,
    PIECE_BYTES_MAX,
    START,
    Tree,
    chain,
    head_of,
    lines_of,
    plain,
    runs,
)
from tests.examples import examples

lines = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=12)


def stored(content: list[bytes]) -> list[object]:
    return [plain(run) for run in runs(chain(content))]


@examples(200)
@given(lines, lines, lines)
def test_a_log_of_two_ways_gives_the_one_that_was_saved_last(common: list[bytes], one: list[bytes], two: list[bytes]):
    second = list(chain(common + two))
    log = stored(common + one)
    new = Tree(log).new_in(second)
    tree = Tree([*log, *map(plain, runs(new))])
    assert b"".join(piece.content for piece in tree.file(second[-1].digest if second else b"")) == b"".join(
        common + two
    )
    if new:
        assert b"".join(lines_of(tree.file())) == b"".join(common + two)


def test_a_long_line_goes_in_parts_and_comes_back_whole():
    content = [b"x" * (2 * PIECE_BYTES_MAX + 7) + b"\n", b"\xff torn"]
    pieces = list(chain(content))
    assert len(pieces) == 4
    found = list(runs(pieces))
    assert [len(run) for run in found] == [1, 1, 2]
    assert len(plain(found[0])[1]) < 1000
    assert plain(found[-1]) == [pieces[1].digest, b"x" * 7 + b"\n" + content[1]]
    assert list(lines_of(Tree(map(plain, found)).file())) == content
    assert [len(run) for run in runs([*pieces[:1], *pieces[2:]])] == [1, 2]  # what does not follow is another run


def test_what_others_put_into_the_log_is_passed_over():
    bomb = zlib.compress(bytes(PIECE_BYTES_MAX + 1))
    torn = zlib.compress(b"x" * 1000)[:-4]
    log = [3, ["x"], {"a": 1}, *stored([b"a\n"]), [b"?", 4], [b"", bomb, PACKED], [b"", torn, PACKED], [b"", b"", 2]]
    assert list(lines_of(Tree(log).file())) == [b"a\n"]


def test_a_line_that_was_torn_is_taken_whole_in_the_end():
    log = stored([b"a\n", b"tor"])
    whole = list(chain([b"a\n", b"torn\n"]))
    log += map(plain, runs(Tree(log).new_in(whole)))
    assert list(lines_of(Tree(log).file())) == [b"a\n", b"torn\n"]
    assert len(Tree([*log, *log]).ends) == 1
    assert len(Tree([*log, *stored([b"b\n"])]).ends) == 2


def test_what_follows_the_head_is_packed_with_it_and_waits_for_it():
    content = [
        b'{"cwd": "/srv/api", "number": %d, "words": "%s"}\n' % (one, b"abcdefgh %x" % one * 60) for one in range(80)
    ]
    pieces = list(chain(content))
    head = head_of(pieces)
    assert head is not None
    at = next(number for number, one in enumerate(pieces, 1) if one.digest == head.digest)
    assert len(head.content) >= HEAD_BYTES_MIN > len(head.content) - len(content[0]) - 9
    assert head_of(pieces[: at - 1]) is None
    first, inside, later = plain(pieces[:at], head), plain(pieces[at - 2 : at], head), plain(pieces[at : at + 2], head)
    assert first[2] == inside[2] == PACKED
    assert later[2:] == [PACKED_WITH_HEAD, head.digest]
    assert len(later[1]) < len(plain(pieces[at : at + 2])[1]) / 2
    assert list(lines_of(Tree([first, later]).file())) == content[: at + 2]
    tree = Tree([later])
    assert tree.ends == []
    assert tree.add([first]) == pieces[: at + 2]
    assert list(lines_of(tree.file())) == content[: at + 2]


def test_a_head_that_is_none_holds_nobody_up():
    content = [b"%d %s\n" % (number, b"x" * 50) for number in range(20_000)]
    pieces = list(chain(content))
    log = stored(content)
    for number in range(0, 20_000, 500):  # far from the start, and too many
        log.append([START, b"x", PACKED_WITH_HEAD, pieces[number].digest])
    log.append([START, b"x", PACKED_WITH_HEAD, b"nowhere"])
    assert Tree(log).file() == pieces
