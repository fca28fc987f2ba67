"""Texts: edits mean the text as this session last read it, and a refused edit leaves no trace."""

import random
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Text

from crdtsync.client.operations.keys import Operations
from crdtsync.client.text import replica as replica_module
from crdtsync.client.text.operations import TextOperations
from crdtsync.client.text.replica import TextReplica
from crdtsync.client.text.replica_cache import Replicas
from crdtsync.errors import InvalidEncoding, InvalidRequest, InvalidValue, NoSpace, OutcomeUnknown, StaleRead
from tests.examples import examples

T = 30.0
WROTE = {"token": "c1.t", "version": "v1.own"}


class Document:
    """The daemon's document."""

    def __init__(self, content=""):
        self.doc: Doc[Text] = Doc()
        self.text = self.doc.get("text", type=Text)
        if content:
            self.text.insert(0, content)

    def __str__(self):
        return str(self.text)

    def read(self, arguments=None, name="d1"):
        """The reply to a ``text_read``."""
        state = (arguments or {}).get("state")
        return {
            "document": name,
            "update": self.doc.get_update(state) if state else self.doc.get_update(),
            "version": "v1.t",
        }

    def take(self, arguments, name="d1"):
        """Carry out a ``text_apply``."""
        self.doc.apply_update(arguments["update"])
        return {"document": name, "token": "c1.t", "version": "v1.own"}


@pytest.fixture
def context():
    return Operations()


@pytest.fixture
def texts(context):
    return TextOperations(context)


@pytest.fixture
def run(reply_to):
    """Run a plan against a document; ``refuse`` throws instead of carrying out a write."""

    def go(plan, document, refuse=None, name="d1"):
        step = next(plan)
        try:
            while True:
                if step.operation == "text_read":
                    step = reply_to(plan, step, document.read(step.arguments, name) if document else None)
                elif refuse is not None:
                    step = reply_to(plan, step, refuse)
                else:
                    step = reply_to(plan, step, document.take(step.arguments, name))
        except StopIteration as done:
            return done.value

    return go


def test_reading_brings_only_what_is_missing(texts, play):
    document = Document("hello")
    first = play(texts.read("t", None, T), document.read())
    assert (first.result, first.arguments) == ("hello", {"key": "t"})
    document.text.insert(5, " world")
    step = next(texts.read("t", None, T))
    assert step.arguments["document"] == "d1"
    assert len(document.read(step.arguments)["update"]) < len(document.doc.get_update())
    second = play(texts.read("t", None, T), document.read(step.arguments))
    assert second.result == "hello world"


def test_a_text_that_is_not_there_is_empty_and_the_first_edit_makes_it(texts, play):
    assert play(texts.read("t", None, T), None).result == ""
    made = play(texts.insert("t", 0, "x", None, T), {"document": "d7", "token": "c1.t", "version": "v1.own"})
    assert made.arguments["document"] is None
    assert made.result == "c1.t"
    assert next(texts.insert("t", 1, "y", None, T)).arguments["document"] == "d7"


def test_positions_mean_the_text_as_it_was_read(texts, run):
    document = Document("abc")
    run(texts.read("t", None, T), document)
    document.text.insert(0, ">>>")  # by somebody else
    run(texts.insert("t", 3, "!", None, T), document)
    run(texts.delete("t", 0, 1, None, T), document)
    assert str(document) == ">>>bc!"
    assert run(texts.read("t", None, T), document) == ">>>bc!"


def test_an_edit_without_a_read_reads_first(texts, run):
    document = Document("abc")
    run(texts.insert("t", 3, "!", None, T), document)
    assert str(document) == "abc!"


def test_setting_keeps_what_others_wrote_since(texts, run):
    document = Document("one two three")
    run(texts.read("t", None, T), document)
    document.text.insert(0, "zero ")
    run(texts.set("t", "one 2 three", None, T), document)
    assert str(document) == "zero one 2 three"


@pytest.mark.parametrize("failure", [NoSpace("full"), OutcomeUnknown("cut off"), KeyboardInterrupt()])
def test_a_write_that_failed_leaves_no_trace(texts, run, failure):
    document = Document("abc")
    run(texts.insert("t", 3, "!", None, T), document)
    with pytest.raises(type(failure)):
        run(texts.insert("t", 0, "lost", None, T), document, refuse=failure)
    run(texts.insert("t", 0, ">", None, T), document)
    assert str(document) == ">abc!"
    assert run(texts.read("t", None, T), document) == ">abc!"


def test_a_write_that_was_done_though_nobody_knew_comes_back_with_the_next_read(texts, run, play):
    document = Document("abc")
    run(texts.read("t", None, T), document)
    plan = texts.insert("t", 3, "!", None, T)
    document.take(next(plan).arguments)
    with pytest.raises(OutcomeUnknown):
        plan.throw(OutcomeUnknown("cut off"))
    run(texts.insert("t", 0, ">", None, T), document)
    assert run(texts.read("t", None, T), document) == str(document) == ">abc!"


def test_a_text_that_was_replaced_is_followed_at_the_next_read(texts, run):
    run(texts.read("t", None, T), Document("old"))
    fresh = Document("new text")
    assert run(texts.read("t", None, T), fresh, name="d2") == "new text"
    run(texts.insert("t", 8, "!", None, T), fresh, name="d2")
    assert str(fresh) == "new text!"


def test_positions_outside_of_the_text_are_refused_before_anything_is_sent(texts, run):
    document = Document("abc")
    run(texts.read("t", None, T), document)
    for plan in (
        texts.insert("t", 4, "x", None, T),
        texts.insert("t", -1, "x", None, T),
        texts.delete("t", 2, 2, None, T),
    ):
        with pytest.raises(InvalidRequest, match="3 characters"):
            run(plan, None)
    for plan in (
        texts.insert("t", 0, "\ud800", None, T),
        texts.set("t", "a\udfff", None, T),
        texts.set("t", b"x", None, T),
    ):
        with pytest.raises(InvalidValue):
            run(plan, None)
    assert run(texts.read("t", None, T), document) == "abc"


def test_a_text_that_is_no_longer_held_must_be_read_again(texts, run):
    texts._replicas = Replicas(replicas_max=2)
    documents = {key: Document(key) for key in "abc"}
    for key, document in documents.items():
        run(texts.read(key, None, T), document)
    with pytest.raises(StaleRead, match="read it again"):
        run(texts.insert("a", 1, "!", None, T), documents["a"])
    run(texts.read("a", None, T), documents["a"])
    run(texts.insert("a", 1, "!", None, T), documents["a"])
    assert str(documents["a"]) == "a!"


def test_when_too_many_were_forgotten_every_unknown_text_counts_as_read():
    replicas = Replicas(replicas_max=1, forgotten_max=2)
    for key in "abcd":
        assert not replicas.is_forgotten(key)
        replicas.put(key, TextReplica(None, None))
    assert replicas.is_forgotten("never read")


def test_own_edits_do_not_leave_a_delete_with_an_old_version(texts, context, run, play):
    document = Document("abc")
    run(texts.read("t", None, T), document)
    assert context.memory.seen("t") == "v1.t"
    run(texts.insert("t", 0, "x", None, T), document)
    assert context.memory.seen("t") == "v1.own"


COMPACTED = {"token": "c1.c", "document": "d2", "bytes_before": 900, "bytes_after": 50}


def test_a_session_goes_on_in_the_document_that_it_compacted_into(texts, context, run, play):
    old, new = Document("hello"), Document("hello")
    run(texts.read("k", None, T), old)
    done = play(texts.compact("k", None, T), COMPACTED)
    assert (done.steps[0].operation, done.arguments) == ("text_compact", {"key": "k", "seen": "v1.t"})
    assert (done.result, done.result.bytes_before, done.result.bytes_after) == ("c1.c", 900, 50)
    assert context.memory.is_forgotten("k"), "nobody told the version"
    run(texts.insert("k", 5, "!", None, T), new, name="d2")
    assert str(new) == "hello!"
    assert context.memory.seen("k") == "v1.own"


def test_after_a_compaction_positions_still_mean_the_text_as_it_was_read(texts, run, play):
    old, new = Document("hello"), Document("oh, hello")  # others had edited it before
    run(texts.read("k", None, T), old)
    play(texts.compact("k", None, T), COMPACTED)
    written = play(texts.insert("k", 5, "!", None, T), new.read(name="d2"), {"document": "d1", **WROTE})
    read, write = written.steps
    assert (read.operation, "state" in read.arguments, write.arguments["document"]) == ("text_read", False, "d1")
    old.take(write.arguments)
    assert str(old) == "hello!", "the daemon brings it over"
    run(texts.insert("k", 6, "!", None, T), old)
    assert str(old) == "hello!!"
    assert run(texts.read("k", None, T), new, name="d2") == "oh, hello"


def test_updates_come_in_pages_and_say_when_they_start_anew(texts, play):
    items = [[b"u1", "c1.1", "me", "n"], [b"u2", "c1.2", "me", "n"]]
    reply = {"document": "d1", "items": items, "token": "c1.2", "more": True, "reset": True}
    found, more = play(texts.updates("t", "c1.0"), reply).result
    assert more
    assert [(update.update, update.token, update.reset, update.document) for update in found] == [
        (b"u1", "c1.1", True, "d1"),
        (b"u2", "c1.2", False, "d1"),
    ]
    assert play(texts.updates("t", None), None).result == ([], False)


def test_an_editor_learns_which_document_it_writes_to(texts, play):
    assert play(texts.document("t"), {"document": "d1", "items": []}).result == "d1"
    assert play(texts.document("t"), None).result is None
    sent = play(
        texts.apply("t", "d1", bytearray(b"u"), None, T), {"document": "d1", "token": "c1.t", "version": "v1.own"}
    )
    assert sent.arguments == {"key": "t", "document": "d1", "update": b"u"}
    assert (sent.result, sent.result.document) == ("c1.t", "d1")


@pytest.mark.parametrize("updates", [None, "abc", 1, [], [None], ["abc"], {b"u"}])
def test_what_is_no_update_is_refused(texts, updates):
    with pytest.raises(InvalidRequest, match="an update is bytes"):
        next(texts.apply_all("t", "d1", updates, None, T))


# -- the replica ------------------------------------------------------------------------------------------------

plain = st.text(st.sampled_from("ab\né𝄞😀"), max_size=12)


@examples(100)
@given(plain, st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), plain), max_size=6), st.sampled_from([4, 60, 1000]))
def test_edits_count_code_points(content, changes, update_bytes_max):
    origin = Document(content)
    replica = TextReplica("d", origin.doc.get_update())
    for start, length, replacement in changes:
        first = int(start * len(content))
        last = first + int(length * (len(content) - first))
        content = content[:first] + replacement + content[last:]
        with mock.patch.object(replica_module, "UPDATE_BYTES_MAX", update_bytes_max):
            updates = replica.edit([(first, last, replacement)])
        for update in updates:
            replica.accept(update)
            origin.doc.apply_update(update)
    assert replica.content == str(replica._text) == str(origin) == content


@examples(100)
@given(plain, plain, st.sampled_from([4, 60, 1000]), st.sampled_from([10, 1000]))
def test_replacing_all_gives_that_text(old, new, update_bytes_max, changes_bytes_max):
    origin = Document(old)
    replica = TextReplica("d", origin.doc.get_update())
    sizes = {"UPDATE_BYTES_MAX": update_bytes_max, "CHANGES_BYTES_MAX": changes_bytes_max}
    with mock.patch.multiple(replica_module, **sizes):
        updates = replica.replace_all(new)
    for update in updates:
        origin.doc.apply_update(update)
    assert replica.content == str(replica._text) == str(origin) == new


def test_many_changes_are_told_line_by_line():
    """What somebody else does meanwhile to a line that did not change stays where it is."""
    old = "one two three\nkept\n" * 100
    origin = Document(old)
    replica = TextReplica("d", origin.doc.get_update())
    with (
        mock.patch.object(replica_module, "CHANGES_MAX", 199),
        mock.patch.object(replica, "edit", wraps=replica.edit) as edit,
    ):
        (update,) = replica.replace_all("0ne tw0 thr33\nkept\n" * 100)
    assert len(edit.call_args.args[0]) == 100
    origin.text.insert(len("one two three\nke"), "!")
    origin.doc.apply_update(update)
    assert str(origin) == ("0ne tw0 thr33\nkept\n" * 100).replace("kept", "ke!pt", 1)


def test_a_rebuilt_replica_writes_under_a_new_name():
    replica = TextReplica(None, None)
    replica.edit([(0, 0, "abc")])
    before = replica._doc.client_id
    replica.roll_back()
    assert replica._doc.client_id != before
    assert replica.content == ""


def test_the_journal_is_bounded():
    replica, rng = TextReplica(None, None), random.Random(1)
    for _ in range(1000):
        position = rng.randint(0, len(replica.content))
        (update,) = replica.edit([(position, position, "x")])
        replica.accept(update)
    assert len(replica._journal) <= 256
    content = replica.content
    replica.roll_back()
    assert replica.content == content


def test_an_update_that_is_none_leaves_the_replica_as_it_was():
    replica = TextReplica("d", Document("abc").doc.get_update())
    with pytest.raises(InvalidEncoding):
        replica.apply(b"\x05\x01garbage")
    assert replica.content == str(replica._text) == "abc"


def test_a_forked_child_writes_under_a_name_of_its_own():
    replicas, replica = Replicas(), TextReplica(None, None)
    (update,) = replica.edit([(0, 0, "abc")])
    replica.accept(update)
    replicas.put("t", replica)
    before = replica._doc.client_id
    replicas._lock.acquire()  # by a thread that does not exist in the child
    replicas.restart()
    assert replicas.get("t") is replica
    assert (replica.content, replica._doc.client_id != before) == ("abc", True)
