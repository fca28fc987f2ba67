"""An editor without its connection: what is typed, sent, merged, acknowledged, refused and taken in."""

from __future__ import annotations

from random import Random

import pytest
from pycrdt import Doc, Text

from crdtsync.client.text.editor_state import (
    ECHOES_MAX,
    UNREAD_UPDATES_MAX,
    UNSENT_CHARS_MAX,
    UNSENT_EDITS_MAX,
    Editing,
)
from crdtsync.client.text.piece_table import PIECE_CHARS_MAX, Pieces
from crdtsync.client.text.typed_buffer import GROUP_CHARS_MAX, GROUP_PARTS_MAX, Typed
from crdtsync.client.text.update_queue import UPDATES_MAX, Segment, UpdateQueue
from crdtsync.client.values.results import Event
from crdtsync.core.text.word_merge import word_edits
from crdtsync.errors import InvalidRequest, InvalidValue

KEY = "notes"
ALPHABET = ("a", "bc", "é", "漢字", "🦊", "e\u0301", "\n", "שלום", "x" * 50)


def words(random: Random, count: int) -> str:
    return "".join(random.choice(ALPHABET) for _ in range(count))


# -- pieces -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_pieces_are_the_text_and_know_the_bytes(seed):
    random = Random(seed)
    text = words(random, random.choice((0, 10, 3000)))
    pieces = Pieces(text)
    for number in range(400):
        start = random.randint(0, len(text))
        end = random.randint(start, min(len(text), start + random.choice((0, 0, 3, 3 * PIECE_CHARS_MAX))))
        new = words(random, random.choice((0, 1, 1, 1, 400)))
        assert pieces.splice(start, end, new) == (len(text[:start].encode()), len(text[:end].encode()))
        text = text[:start] + new + text[end:]
        assert pieces.length == len(text)
        if number % 50 == 0:
            assert str(pieces) == text
    assert str(pieces) == text


# -- what is typed ----------------------------------------------------------------------------------------------------


def replayed(text: str, typed: Typed) -> str:
    """What the byte edits make of the text."""
    content = text.encode()
    for group in typed.take():
        assert group.edits
        for first, last, new in group.edits:
            content = content[:first] + new.encode() + content[last:]
            content.decode()
    return content.decode()


@pytest.mark.parametrize("seed", range(5))
def test_runs_of_keystrokes_come_to_the_same_text(seed):
    random = Random(seed)
    text = words(random, 200)
    at = random.randrange(len(text))
    for _ in range(20):
        typed, before = Typed(text), text
        for _ in range(random.randrange(30)):
            if random.random() < 0.2:
                at = random.randint(0, len(text))
            at = min(at, len(text))
            back, forth = random.choice(((0, 0), (0, 0), (1, 0), (0, 1), (3, 5))), words(random, random.randrange(3))
            start, end = max(0, at - back[0]), min(len(text), at + back[1])
            typed.edit(start, end, forth)
            text = text[:start] + forth + text[end:]
            at = start + len(forth)
            assert len(typed) == len(text)
            if random.random() < 0.1:
                assert str(typed) == text
            if random.random() < 0.1:
                typed.cut()
        assert replayed(before, typed) == text
        assert typed.is_empty


def test_a_run_is_one_edit():
    typed = Typed("before after")
    for number, letter in enumerate("word "):
        typed.edit(7 + number, 7 + number, letter)
    typed.edit(9, 10, "")  # "wod "
    typed.edit(9, 9, "o")
    (group,) = typed.take()
    assert group.edits == [(7, 7, "wood ")]
    assert group.number == 7


def test_what_was_typed_keeps_its_neighbours():
    """By which Yjs orders what two type at one place at once."""
    typed = Typed("ab")
    typed.edit(1, 1, "x")
    typed.edit(0, 1, "")
    (group,) = typed.take()
    assert group.edits == [(1, 1, "x"), (0, 1, "")]
    typed.edit(1, 2, "")
    typed.edit(0, 1, "")
    typed.edit(0, 0, "y")
    (group,) = typed.take()
    assert group.edits == [(0, 2, "y")]


def test_edits_that_undo_each_other_are_none():
    typed = Typed("text")
    typed.edit(4, 4, "x")
    typed.edit(4, 5, "")
    assert typed.is_empty
    assert typed.take() == []
    assert typed.number == 2


def test_what_was_cut_stays_apart_with_its_number():
    typed = Typed("")
    typed.edit(0, 0, "one")
    typed.cut()
    typed.edit(3, 3, "x")
    typed.edit(3, 4, "")
    typed.cut()
    typed.edit(3, 3, "two")
    assert [(group.edits, group.number, group.is_cut) for group in typed.take()] == [
        ([(0, 0, "one")], 1, True),
        ([(3, 3, "two")], 4, False),
    ]


def test_long_edits_are_several_updates():
    text = "🦊" * (3 * GROUP_PARTS_MAX)
    typed = Typed(text)
    typed.edit(1, len(text) - 1, "x" * (2 * GROUP_CHARS_MAX + 1))
    groups = typed.take()
    assert all(group.parts <= GROUP_PARTS_MAX + 2 and group.chars <= GROUP_CHARS_MAX for group in groups)
    assert [group.number for group in groups] == [0] * (len(groups) - 1) + [1]
    assert len(groups) > 4


@pytest.mark.parametrize("start, end", [(-1, 0), (2, 1), (0, 5), (5, 5), (0.0, 1), (True, 1)])
def test_there_must_be_such_a_place(start, end):
    typed = Typed("text")
    with pytest.raises(InvalidRequest):
        typed.edit(start, end, "x")
    assert typed.is_empty
    assert typed.number == 0


@pytest.mark.parametrize("text", ["\ud800", b"bytes", None])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(InvalidValue):
        Typed("").edit(0, 0, text)


# -- what is sent -----------------------------------------------------------------------------------------------------


def outbox() -> UpdateQueue:
    return UpdateQueue(lambda one, other: one + other)


def segment(update: bytes, number: int, *, parts: int = 1, is_cut: bool = False) -> Segment:
    return Segment(update, number, parts, 1, is_cut)


def test_all_that_waits_is_one_request_of_one_update():
    box = outbox()
    box.add(segment(b"a", 1))
    assert [part.update for part in box.request()] == [b"a"]
    for number, update in enumerate((b"b", b"c", b"d"), 2):
        box.add(segment(update, number))  # the first is under way: it stays as it is
    box.succeeded()
    assert (box.acknowledged, box.changes) == (1, 1)
    assert [part.update for part in box.request()] == [b"bcd"]
    box.failed()
    box.add(segment(b"e", 5))
    assert [part.update for part in box.request()] == [b"bcde"]
    box.succeeded()
    assert (box.acknowledged, box.changes, bool(box), box.chars) == (5, 2, False, 0)
    assert box.request() == []


def test_what_is_to_stay_apart_goes_in_one_request_too():
    box = outbox()
    for number in range(UPDATES_MAX + 2):
        box.add(segment(b"u", number + 1, is_cut=True))
    assert len(box.request()) == UPDATES_MAX
    box.succeeded()
    assert box.acknowledged == UPDATES_MAX
    assert len(box.request()) == 2


def test_no_update_grows_beyond_what_the_daemon_takes():
    box = outbox()
    for number in range(3):
        box.add(segment(b"u", number + 1, parts=GROUP_PARTS_MAX // 2))
    assert [part.update for part in box.request()] == [b"uu"]
    box.succeeded()
    assert [part.update for part in box.request()] == [b"u"]


# -- editors at a daemon ----------------------------------------------------------------------------------------------


class Board:
    """What a daemon does with a text: takes updates, tells of them, compacts."""

    def __init__(self) -> None:
        self.documents: list[Doc[Text]] = []
        self.watchers: list[Seat] = []

    @property
    def name(self) -> str | None:
        return f"d{len(self.documents) - 1}" if self.documents else None

    def text(self, number: int = -1) -> str:
        return str(self.documents[number].get("text", type=Text)) if self.documents else ""

    def apply(self, named: str | None, update: bytes) -> str:
        """An edit of any document is made in the newest, under the ids that it has."""
        if not self.documents:
            self.documents.append(Doc())
        self.documents[-1].apply_update(update)
        self.tell(update, self.name)
        return self.name or ""

    def change(self, whole: str) -> None:
        """An edit by somebody without an editor."""
        self.edit(word_edits(self.text(), whole))

    def edit(self, edits: list[tuple[int, int, str]], document: int = -1) -> None:
        """An edit by somebody without an editor; on another host, if it is of an older document."""
        if not self.documents:
            self.documents.append(Doc())
        number = document % len(self.documents)
        doc = self.documents[number]
        found: list[bytes] = []
        subscription = doc.observe(lambda event: found.append(event.update))
        text = doc.get("text", type=Text)
        before = str(text)
        with doc.transaction():
            for start, end, new in reversed(edits):
                first, last = len(before[:start].encode()), len(before[:end].encode())
                if last > first:
                    del text[first:last]
                if new:
                    text.insert(first, new)
        del subscription
        for update in found:
            for newer in self.documents[number + 1 :]:
                newer.apply_update(update)
            self.tell(update, f"d{number}")

    def compact(self) -> None:
        whole = self.documents[-1].get_update() if self.documents else b"\0\0"
        self.documents.append(Doc())
        self.documents[-1].apply_update(whole)  # that nothing is forgotten of it is no editor's business
        self.tell_all(event("set", "compact", self.text()))

    def tell(self, update: bytes, document: str | None) -> None:
        self.tell_all(event("set", "text", update, document=document))

    def tell_all(self, told: Event) -> None:
        for watcher in self.watchers:
            watcher.events.append(told)

    def read(self, document: str | None, state: bytes) -> tuple[str | None, bytes | None, str | None]:
        if not self.documents:
            return None, None, None
        doc = self.documents[-1]
        return self.name, doc.get_update(state) if document == self.name else doc.get_update(), "v"


def event(name: str, op: str | None, value: object, *, key: str | None = KEY, document: str | None = None) -> Event:
    return Event(name, key, "text", value, op, "v", None, None, None, None, document=document)


class Seat:
    """An editor at the board; its requests, replies and events go step by step."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.state = Editing()
        self.events: list[Event] = []
        self.answer: tuple[str | None, bytes | None, str | None] | None = None
        self.fetch()
        self.state.read()
        board.watchers.append(self)

    def fetch(self) -> None:
        self.state.fetched(*self.board.read(self.state.document, self.state.fetching()))

    def listen(self, count: int) -> None:
        for told in self.events[:count]:
            self.state.told(told, KEY)
        del self.events[:count]

    def ask(self) -> None:
        """What the daemon has is on its way, while other things happen."""
        if self.answer is None and self.state.is_to_fetch:
            self.answer = self.board.read(self.state.document, self.state.fetching())

    def work(self, outcome: str = "done") -> bool:
        """What the editor's task does in one turn; False: nothing."""
        state = self.state
        if self.answer is not None:
            state.fetched(*self.answer)
            self.answer = None
            return True
        if state.is_to_fetch:
            self.fetch()
            return True
        parts = state.request()
        if not parts:
            return False
        took = [self.board.apply(state.document, part.update) for part in parts] if outcome != "refused" else []
        if outcome == "done":
            state.succeeded(took[-1])
        else:
            state.outbox.failed()
        return True

    def settle(self) -> str:
        """Everything is sent, told and read."""
        for _ in range(10):
            self.listen(len(self.events))
            while self.work():
                pass
            if self.state.must_ask:
                self.state.must_fetch = True
        return self.state.read()


def test_positions_mean_the_text_as_it_was_read():
    board = Board()
    board.change("the fox")
    seat = Seat(board)
    assert str(seat.state.typed) == "the fox"
    board.change("LONG PREFIX the fox")
    seat.listen(1)
    assert (seat.state.unread, str(seat.state.typed)) == (1, "the fox")
    seat.state.typed.edit(4, 4, "quick ")
    while seat.work():
        pass
    assert board.text() == "LONG PREFIX the quick fox"
    assert seat.state.read() == "LONG PREFIX the quick fox"
    assert seat.settle() == "LONG PREFIX the quick fox"
    assert seat.state.unread == 0


def test_nothing_is_acknowledged_before_the_reply():
    seat = Seat(Board())
    seat.state.typed.edit(0, 0, "one")
    assert seat.state.unsent == 1
    assert len(seat.state.request()) == 1
    seat.state.typed.edit(3, 3, "two")
    assert seat.state.unsent == 2
    seat.state.succeeded("d0")
    assert seat.state.unsent == 1
    seat.state.typed.edit(3, 6, "")
    assert seat.state.request() == []  # undone before it was sent
    assert seat.state.unsent == 0


def test_what_was_done_without_a_reply_is_not_done_twice():
    board = Board()
    seat = Seat(board)
    seat.state.typed.edit(0, 0, "one ")
    seat.work("lost")
    seat.state.typed.edit(4, 4, "two")
    assert seat.settle() == board.text() == "one two"


def test_what_is_refused_stays_until_it_is_given_up():
    board = Board()
    board.change("kept")
    seat = Seat(board)
    seat.state.typed.edit(0, 0, "refused ")
    seat.work("refused")
    assert (seat.state.unsent, str(seat.state.typed), board.text()) == (1, "refused kept", "kept")
    seat.state.discard()
    assert seat.settle() == "kept"
    assert not seat.state.unsent
    seat.state.typed.edit(0, 0, "now ")
    assert seat.settle() == board.text() == "now kept"


def test_a_compaction_is_not_noticed():
    board = Board()
    board.change("some text")
    seat = Seat(board)
    board.compact()
    seat.listen(1)
    seat.state.typed.edit(4, 4, " more")
    while seat.work():
        pass
    assert seat.state.document == "d1"
    assert str(seat.state.typed) == board.text() == "some more text"


def test_what_is_told_while_another_document_is_fetched_is_not_lost():
    board = Board()
    board.change("some text")
    seat = Seat(board)
    board.compact()
    board.change("some other text")
    seat.listen(2)
    seat.ask()
    board.change("some other text, and more")
    seat.listen(1)
    seat.work()
    assert seat.state.read() == "some other text, and more"


def test_two_who_make_one_text_make_one():
    board = Board()
    one, two = Seat(board), Seat(board)
    one.state.typed.edit(0, 0, "one ")
    two.state.typed.edit(0, 0, "two ")
    for seat in (one, two, one, two):
        seat.settle()
    assert sorted(board.text().split()) == ["one", "two"]
    assert one.settle() == two.settle() == board.text()


def test_a_text_that_was_deleted_is_empty_at_the_next_read():
    board = Board()
    board.change("gone soon")
    seat = Seat(board)
    board.documents.clear()
    board.tell_all(event("delete", "delete", None))
    assert str(seat.state.typed) == "gone soon"
    assert seat.settle() == ""
    seat.state.typed.edit(0, 0, "anew")
    assert seat.settle() == board.text() == "anew"


def test_one_who_reads_nothing_holds_a_bounded_part_of_it(monkeypatch):
    monkeypatch.setattr("crdtsync.client.text.editor_state.UNREAD_UPDATES_MAX", 10)
    board = Board()
    board.change("x")
    seat = Seat(board)
    for number in range(25):
        board.change(f"{number} {board.text()}")
    seat.listen(25)
    assert seat.state.unread <= 10
    assert seat.state.must_fetch
    assert seat.settle() == board.text()
    assert UNREAD_UPDATES_MAX == 10_000


def test_a_typist_waits_when_too_much_is_unsent():
    state = Editing()
    found = []
    for length in (UNSENT_CHARS_MAX - 1, 1):
        state.typed.edit(0, 0, "x" * length)
        found.append(state.is_full)
    assert found == [False, True]
    state = Editing()
    for _ in range(UNSENT_EDITS_MAX):
        state.typed.edit(0, 0, "x")
    assert state.is_full
    assert state.must_wait


def test_nobody_types_while_a_reader_waits():
    """Else what is typed meanwhile would keep it waiting."""
    state = Editing()
    found = []
    for waiting in (0, 1):
        state.waiting = waiting
        found.append((state.must_wait, state.is_full))
    assert found == [(False, False), (True, False)]


def test_own_updates_are_not_remembered_for_ever():
    board = Board()
    seat = Seat(board)
    board.watchers.clear()  # nobody tells it
    for _ in range(ECHOES_MAX + 10):
        seat.state.typed.edit(0, 0, "x")
        seat.work()
    assert len(seat.state._echoes) == ECHOES_MAX


MARKS = "[x.1:a]\n[x.3:ccc]\n[x.4:d]\n"


def left_behind() -> tuple[Board, Seat]:
    """Others have compacted the text and inserted a line; the editor has not heard of it and has deleted another."""
    board = Board()
    board.change(MARKS)
    seat = Seat(board)
    board.compact()
    board.edit([(8, 8, "[x.2:bb]\n")])
    seat.state.typed.edit(8, 18, "")  # the line of x.3
    return board, seat


@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("is_told", [False, True])
def test_what_was_typed_goes_to_the_document_in_which_it_was_typed(is_told, is_sent):
    board, seat = left_behind()
    if is_told:
        seat.listen(2)
    if is_sent:
        seat.state.request()  # on its way
        seat.state.outbox.failed()
    seat.fetch()  # tells of the new document, before anything is sent
    seat.state.typed.edit(8, 8, "[x.5:e]\n")
    assert seat.state.read() == str(seat.state.typed) == "[x.1:a]\n[x.5:e]\n[x.4:d]\n"
    assert seat.state.document == "d0"
    assert seat.settle() == board.text()
    assert sorted(board.text().split()) == ["[x.1:a]", "[x.2:bb]", "[x.4:d]", "[x.5:e]"]
    assert (seat.state.document, seat.state.unsent) == ("d1", 0)


def test_what_a_newer_document_refuses_stays_typed():
    """As where the daemon has no longer the document in which it was typed."""
    board, seat = left_behind()
    seat.listen(2)
    seat.fetch()
    seat.work("refused")
    seat.state.error = InvalidRequest("this node does not hold that text, or no longer")
    seat.listen(len(seat.events))
    assert seat.state.read() == str(seat.state.typed) == "[x.1:a]\n[x.4:d]\n"
    assert seat.state.unsent == 1
    assert board.text() == "[x.1:a]\n[x.2:bb]\n[x.3:ccc]\n[x.4:d]\n"
    seat.state.discard()
    assert seat.settle() == board.text()


def test_a_late_edit_is_read_in_the_new_document():
    """It comes to the old one when the new one has been fetched."""
    board = Board()
    board.change("some text")
    seat = Seat(board)
    board.compact()
    board.edit([(0, 0, "and ")])
    seat.listen(2)
    seat.fetch()
    board.edit([(0, 0, "late ")], document=0)
    seat.listen(1)
    seat.state.read()
    assert seat.state.document == "d1"
    assert seat.settle() == board.text()
    assert sorted(board.text().split()) == ["and", "late", "some", "text"]


def test_who_types_on_and_reads_nothing_is_left_behind_no_longer_than_that():
    board = Board()
    board.change("some text")
    seat = Seat(board)
    board.compact()
    seat.listen(1)
    for number in range(3):
        seat.state.typed.edit(0, 0, f"{number} ")
        seat.ask()  # it is asked for, in vain
        seat.state.typed.edit(0, 0, "x")
        seat.work()
        assert seat.state.document == "d0"
    while seat.work():
        pass
    assert seat.state.document == "d1"
    assert seat.settle() == board.text()


class Story:
    """Three editors and somebody without one, in random order; what each editor typed and has not been acknowledged."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.board = Board()
        if self.random.random() < 0.5:
            self.board.change("a text ")
        self.seats = [Seat(self.board) for _ in range(3)]
        self.kept: set[str] = set()
        self.deleted: set[str] = set()
        self.waiting: dict[int, set[str]] = {number: set() for number in range(3)}
        self.acts = [
            *[self.type] * 8, self.delete, *[self.work] * 4, *[self.lose] * 2, *[self.refuse] * 2, *[self.listen] * 4,
            *[self.read] * 2, *[self.ask] * 3, self.other, self.compact, self.late, self.lag,
        ]  # fmt: skip

    def step(self, step: int) -> None:
        number = self.random.randrange(3)
        self.random.choice(self.acts)(number, step)
        if self.seats[number].state.unsent == 0:
            self.kept |= self.waiting[number]
            self.waiting[number].clear()

    def type(self, number: int, step: int) -> None:
        typed, word = self.seats[number].state.typed, f"wé{number}x{step} "
        shown = str(typed)
        ends = [at for at in range(len(shown) + 1) if at in (0, len(shown)) or shown[at - 1] == " "]
        at = self.random.choice(ends)
        for letter, character in enumerate(word):
            typed.edit(at + letter, at + letter, character)
        self.waiting[number].add(word.strip())
        if self.random.random() < 0.1:
            self.seats[number].state.cut()

    def work(self, number: int, _step: int) -> None:
        self.seats[number].work()

    def ask(self, number: int, _step: int) -> None:
        self.seats[number].ask()

    def lose(self, number: int, _step: int) -> None:
        self.seats[number].work("lost")

    def refuse(self, number: int, _step: int) -> None:
        state = self.seats[number].state
        is_fetching = state.is_to_fetch or self.seats[number].answer is not None
        if not is_fetching and self.seats[number].work("refused") and self.random.random() < 0.3:
            state.discard()
            self.waiting[number].clear()

    def listen(self, number: int, _step: int) -> None:
        seat = self.seats[number]
        seat.listen(self.random.randint(0, len(seat.events)))

    def read(self, number: int, _step: int) -> None:
        self.seats[number].state.read()

    def other(self, _number: int, step: int) -> None:
        self.board.change(f"{self.board.text()}o{step} ")
        self.kept.add(f"o{step}")

    def delete(self, number: int, _step: int) -> None:
        """A word that others may not have seen, or that they write beside."""
        typed = self.seats[number].state.typed
        shown = str(typed)
        word = self.random.choice(shown.split() or [""])
        if word:
            at = f" {shown}".index(f" {word} ")
            typed.edit(at, at + len(word) + 1, "")
            self.deleted.add(word)

    def compact(self, _number: int, _step: int) -> None:
        if self.board.documents:
            self.board.compact()

    def late(self, _number: int, step: int) -> None:
        """An edit by a host that has not heard of a compaction."""
        if len(self.board.documents) > 1:
            self.board.edit([(0, 0, f"l{step} ")], document=-2)
            self.kept.add(f"l{step}")

    def lag(self, number: int, _step: int) -> None:
        self.seats[number].events = [event("lagged", None, None, key=None)]


@pytest.mark.parametrize("seed", range(10))
def test_editors_and_others_converge_whatever_happens(seed):
    """Each typed word stands in the end, once, but for those of requests that were refused and given up."""
    story = Story(seed)
    for step in range(150):
        story.step(step)
    for seat in [*story.seats] * 3:
        seat.settle()
    texts = [seat.settle() for seat in story.seats]
    assert texts == [story.board.text()] * 3
    kept = story.kept.union(*story.waiting.values()) - story.deleted
    assert kept
    assert {word: texts[0].split().count(word) for word in kept} == dict.fromkeys(kept, 1)
