"""Files as chains of pieces, logs as trees: nothing is lost, whatever was saved where."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crdtsync.sessions.saved.pieces import (
    BEFORE_BYTES,
    PIECE_BYTES_MAX,
    START,
    Piece,
    Tree,
    chain,
    elements,
    end_of,
    lines_of,
    recent,
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
    new = list(elements(second, known=Tree(log)))
    tree = Tree([*log, *(element for element, _ in new)])
    assert b"".join(piece.content for piece in tree.file(second[-1].digest if second else b"")) == b"".join(
        common + two
    )
    if new:
        assert b"".join(lines_of(tree.file())) == b"".join(common + two)


def test_a_long_line_goes_in_parts_and_comes_back_whole():
    content = [b"x" * (2 * PIECE_BYTES_MAX + 7) + b"\n", b"\xff torn"]
    pieces = list(chain(content))
    assert len(pieces) == 4
    found = list(elements(pieces))
    assert [len(run) for _, run in found] == [1, 1, 2]
    assert len(found[0][0][1]) < 1000
    assert found[-1][0] == [pieces[1].digest, b"x" * 7 + b"\n" + content[1]]
    assert list(lines_of(Tree(element for element, _ in found).file())) == content
    known = {pieces[1].digest}
    assert [len(run) for _, run in elements(pieces, known=known)] == [1, 2]  # what does not follow is another run


def test_what_others_put_into_the_log_is_passed_over():
    bomb = zlib.compress(bytes(PIECE_BYTES_MAX + 1))
    torn = zlib.compress(b"x" * 1000)[:-4]
    log = [3, ["x"], {"a": 1}, *stored([b"a\n"]), [b"?", 4], [b"", bomb, b"x"], [b"", torn, b"x"], [b"", b"", b""],
           [b"", b"", 2]]  # fmt: skip
    assert list(lines_of(Tree(log).file())) == [b"a\n"]
    assert [end_of(one) for one in log[:3]] == [None, None, None]


def test_a_line_that_was_torn_is_taken_whole_in_the_end():
    log = stored([b"a\n", b"tor"])
    log += [element for element, _ in elements(chain([b"a\n", b"torn\n"]), known=Tree(log))]
    assert list(lines_of(Tree(log).file())) == [b"a\n", b"torn\n"]
    assert len(Tree([*log, *log]).ends) == 1
    assert len(Tree([*log, *stored([b"b\n"])]).ends) == 2


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
    assert list(lines_of(Tree([*log[:50], by_itself]).file())) == content[:51]
    assert Tree(log).file() == pieces
    assert Tree(log[1:]).ends == [pieces[40].digest]  # nothing else can be read
    tree = Tree()
    order = random.Random(3).sample(log, len(log))
    assert {one.digest for one in tree.add(order)} == {one.digest for one in pieces}
    assert tree.file(pieces[-1].digest) == pieces


def test_what_waits_for_what_never_comes_holds_nobody_up():
    content = [b"%d %s\n" % (number, b"x" * 50) for number in range(20_000)]
    pieces = list(chain(content))
    log = stored(content)
    log[:0] = [[b"%d" % number, b"x", START] for number in range(20_000)]
    assert Tree(log).file() == pieces
