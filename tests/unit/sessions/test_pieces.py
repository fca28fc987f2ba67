"""Files as chains of pieces, logs as trees: nothing is lost, whatever was saved where."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.errors import InvalidEncoding
from crdtsync.sessions.saved.pieces import (
    BEFORE_BYTES,
    RUN_BYTES_MAX,
    START,
    Piece,
    PieceTree,
    chain,
    elements,
    end_of,
    large,
    lines_of,
    recent,
    with_large,
)
from tests.examples import examples

lines = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=12)


def stored(content: list[bytes]) -> list[list[Any]]:
    return [element for element, _ in elements(chain(content))]


def one_by_one(pieces: list[Piece]) -> Iterator[list[Any]]:
    """Each piece as an element, as a session is saved that grows."""
    before: bytes | None = b""
    for one in pieces:
        yield from (element for element, _ in elements([one], before))
        before = recent(before, one.content)


@examples(200)
@given(lines, lines, lines)
def test_a_log_of_two_ways_gives_the_one_that_was_saved_last(common: list[bytes], one: list[bytes], two: list[bytes]):
    second = list(chain(common + two))
    log = stored(common + one)
    new = list(elements(second, known=PieceTree(log)))
    tree = PieceTree([*log, *(element for element, _ in new)])
    assert b"".join(piece.content for piece in tree.file(second[-1].digest if second else b"")) == b"".join(
        common + two
    )
    if new:
        assert b"".join(lines_of(tree.file())) == b"".join(common + two)


def test_a_large_line_is_a_blob_and_comes_back_whole():
    content = [b"a\n", b"x" * (2 * RUN_BYTES_MAX + 7) + b"\n", b"b\n", b"\xff torn"]
    pieces = list(chain(content))
    found = list(elements(pieces))
    assert [len(run) for _, run in found] == [1, 1, 2]
    assert found[1][0] == [pieces[0].digest, len(content[1]), pieces[1].digest]
    assert end_of(found[1][0]) == pieces[1].digest
    blob = large(content[1])
    assert len(blob) < 2000
    log = [element for element, _ in found]
    whole = with_large(log[1], blob)
    for values in ([log[0], whole, log[2]], [*log, whole], [log[0], whole, *log[1:]]):
        assert list(lines_of(PieceTree(values).file())) == content
    for wrong in (blob[:-5], b"nothing", large(content[1] + b"x")):
        with pytest.raises(InvalidEncoding, match="not on this host"):
            PieceTree([log[0], with_large(log[1], wrong), log[2]]).file()
    with pytest.raises(InvalidEncoding, match="not on this host"):
        PieceTree(log).file()


def test_what_follows_a_large_line_is_read_without_it():
    content = [b"begin" * 900 + b"\n", b"x" * (RUN_BYTES_MAX + 7) + b"\n", b"begin, and more: " * 60 + b"\n"]
    log = list(one_by_one(list(chain(content))))
    assert [len(one) for one in log] == [3, 3, 3]  # packed, large, packed with the first
    found = PieceTree().add(log)
    assert [one.content for one in found] == [content[0], b"", content[2]]


def test_large_lines_that_follow_each_other_in_a_circle_hold_nobody_up():
    one, two, packed = b"1" * 12, b"2" * 12, zlib.compressobj(zdict=b"x")
    tree = PieceTree([[one, 9, two], [two, 9, one], [two, packed.compress(b"y\n") + packed.flush(), b"3" * 12]])
    with pytest.raises(InvalidEncoding):
        tree.file(one)


def test_what_others_put_into_the_log_is_passed_over():
    bomb = zlib.compress(bytes(RUN_BYTES_MAX + 1))
    torn = zlib.compress(b"x" * 1000)[:-4]
    log = [3, ["x"], {"a": 1}, *stored([b"a\n"]), [b"?", 4], [b"", bomb, b"x"], [b"", torn, b"x"], [b"", b"", b""],
           [b"", b"", 2]]  # fmt: skip
    assert list(lines_of(PieceTree(log).file())) == [b"a\n"]
    assert [end_of(one) for one in log[:3]] == [None, None, None]


def test_a_line_that_was_torn_is_taken_whole_in_the_end():
    log = stored([b"a\n", b"tor"])
    log += [element for element, _ in elements(chain([b"a\n", b"torn\n"]), known=PieceTree(log))]
    assert list(lines_of(PieceTree(log).file())) == [b"a\n", b"torn\n"]
    assert len(PieceTree([*log, *log]).ends) == 1
    assert len(PieceTree([*log, *stored([b"b\n"])]).ends) == 2


def test_what_is_saved_as_it_grows_is_packed_with_what_was_before_it_and_waits_for_that():
    words = b" ".join(b"%x" % number**3 for number in range(100))
    content = [b'{"number": %d, "words": "%s"}\n' % (number, words) for number in range(80)]
    content[40] = b"short\n"
    pieces = list(chain(content))
    log = list(one_by_one(pieces))
    assert sum(map(len, content[:40])) > BEFORE_BYTES
    assert [end_of(one) for one in log] == [one.digest for one in pieces]
    ((by_itself, _),) = elements(pieces[50:51], None)
    assert len(log[50][1]) < len(by_itself[1]) / 2
    assert list(lines_of(PieceTree([*log[:50], by_itself]).file())) == content[:51]
    assert PieceTree(log).file() == pieces
    assert PieceTree(log[1:]).ends == [pieces[40].digest]  # nothing else can be read
    tree = PieceTree()
    order = random.Random(3).sample(log, len(log))
    assert {one.digest for one in tree.add(order)} == {one.digest for one in pieces}
    assert tree.file(pieces[-1].digest) == pieces


def test_what_waits_for_what_never_comes_holds_nobody_up():
    content = [b"%d %s\n" % (number, b"x" * 50) for number in range(20_000)]
    pieces = list(chain(content))
    log = stored(content)
    log[:0] = [[b"%d" % number, b"x", START] for number in range(20_000)]
    assert PieceTree(log).file() == pieces
