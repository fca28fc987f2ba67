"""Fewer tokens for the same content: what stays, what goes, and that a budget is never exceeded."""

from __future__ import annotations

import json
import random
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtsync.context.compact.compress import _BY_KIND, compress
from crdtsync.context.compact.detect import KINDS, detect
from crdtsync.context.compact.prose import compact_prose
from crdtsync.context.compact.result import CompactDraft
from crdtsync.context.compact.tables import cell
from crdtsync.context.tokens import count
from crdtsync.errors import InvalidRequest

RECORDS = [
    {
        "id": i,
        "state": "ok",
        "host": f"host-{i % 3}",
        "path": f"/srv/app/part_{i}.py",
        "note": ("connection reset by peer", "user logged in", "retry scheduled")[i % 3],
        "owner": {"name": "Ann", "team": "core"},
    }
    for i in range(60)
]

LOG = "\n".join(
    f"2026-11-22T10:{i // 60:02}:{i % 60:02}Z "
    + ("ERROR worker-3 disk /dev/sda1 is full" if i == 77 else f"INFO worker-{i % 4} took task {i} in {20 + i % 9} ms")
    for i in range(400)
)

PYTHON = '''"""Invoices."""

import asyncio


class Till:
    """Takes money."""

    def pay(self, invoice: str, *, dry_run: bool = False) -> int:
        """Pay an invoice once."""
        if dry_run:
            return 0
        total = sum(range(10))
        for i in range(total):
            print(i, invoice)
        return total

    def close(self) -> None:
        self.is_open = False


async def refund(till: Till, amount: int) -> None:
    amount = abs(amount)
    await asyncio.sleep(0)
    till.balance -= amount
    till.log.append(("refund", amount))
    till.flush()
'''


# -- json


def test_records_become_a_table_that_says_common_things_once():
    done = compress(json.dumps(RECORDS))
    assert done.kind == "json"
    assert (
        done.text.count("Ann") == done.text.count("connection reset by peer") == done.text.count("/srv/app/part_") == 1
    )
    assert "state=ok in all" in done.text
    assert "id counts from 0" in done.text
    assert done.left_out == ()
    assert done.savings_percent > 64


def test_cells_that_could_be_taken_for_something_else_keep_their_quotes():
    values = ["1", 1, "true", True, None, "null", "a|b", "~", "", "x\ny", 1.5, [1, {"a": 2}], {}]
    lines = compress(json.dumps([{"i": i % 2, "value": value} for i, value in enumerate(values)] * 3)).text.split("\n")
    cells = [line.split("|", 1)[1] for line in lines[2 : 2 + len(values)]]
    assert cells == [
        '"1"',
        "1",
        '"true"',
        "true",
        "~",
        '"null"',
        '"a|b"',
        '"~"',
        '""',
        '"x\\ny"',
        "1.5",
        '[1,{"a":2}]',
        "{}",
    ]


def test_a_record_without_a_field_has_an_empty_cell():
    rows = [{"a": i, "b": i * 7} if i % 2 else {"a": i} for i in (5, 9, 12, 13)]
    assert compress(json.dumps(rows * 10)).text.split("\n")[2:6] == ["5|35", "9|63", "12|", "13|91"]


def test_a_list_in_a_cell_has_its_repeated_elements_once_and_quotes_where_a_comma_could_mislead():
    rows = [{"n": i * i, "tags": ["needs a review", f"tag, {i}", "[x]", 7]} for i in range(30)]
    text = compress(json.dumps(rows)).text
    assert text.count("needs a review") == 1
    assert '16|[A, "tag, 4", "[x]", 7]' in text


def test_a_log_in_a_string_is_read_as_a_log():
    session = [{"role": "tool", "content": LOG}, {"role": "tool", "content": json.dumps(RECORDS)}]
    text = compress(json.dumps(session)).text
    assert "[×399 +0s…+399s]" in text
    assert "ERROR worker-3 disk /dev/sda1 is full" in text
    assert "60 rows" in text


def test_lines_of_json_are_records_too():
    done = compress("\n".join(json.dumps(record) for record in RECORDS))
    assert (done.kind, done.text.split("\n")[0][:7]) == ("json", "60 rows")


def test_when_rows_must_go_errors_stay_and_the_gap_is_counted():
    records = [{"n": i * 3, "said": "the disk failed" if i == 500 else "all is well"} for i in range(1_000)]
    done = compress(json.dumps(records), budget=300)
    assert done.compressed_tokens <= 300
    assert "1500|" in done.text
    assert "rows left out]" in done.text
    assert any("rows" in said for said in done.left_out)


# -- logs


def test_lines_of_one_template_are_counted_and_an_error_stays_whole():
    done = compress(LOG)
    assert done.kind == "log"
    assert "[×399 +0s…+399s] INFO worker-<0|1|2|3> took task <0…399> in <20…28> ms" in done.text
    assert "+77s ERROR worker-3 disk /dev/sda1 is full" in done.text
    assert done.savings_percent > 88


def test_requests_of_one_method_and_status_are_counted_and_those_that_failed_stay():
    def line(number: int, request: str, status: int) -> str:
        when = f"20/Nov/2026:03:00:{number % 60:02} +0000"
        return f'10.0.0.{number % 9} - - [{when}] "{request} HTTP/1.1" {status} 7 "-" "x"'

    lines = [line(number, f"GET /items/{number}", 200) for number in range(400)]
    lines[40:40] = [line(1, "GET /export/7", 500), line(2, "DELETE /users/ann", 204)]
    done = compress("\n".join(lines))
    assert done.kind == "log"
    assert '"GET <400 values: /items/0…/items/399> HTTP/1.1" 200' in done.text
    assert lines[40] in done.text
    assert lines[41] in done.text
    assert done.savings_percent > 88


def test_lines_that_say_the_same_of_other_numbers_are_a_log_though_they_have_no_times():
    lines = [f"[{number}/400] Compiling src/module_{number}.c" for number in range(400)]
    steps = [f"   Finished step {number} in {number % 7} ms" for number in range(400)]
    fault = "src/module_7.c:3: error: undeclared identifier 'x41'"
    done = compress("\n".join([*sum(zip(lines, steps, strict=True), ()), fault]))
    assert done.kind == "log"
    assert "[×400] [<0…399>/400] Compiling src/module_<0…399>.c" in done.text
    assert "[×400]    Finished step <0…399> in <0…6> ms" in done.text
    assert fault in done.text


def test_columns_that_grow_are_one_template():
    lines = [f"[{number:>8}] eth{number % 8}: link is up, 1000 Mbps" for number in range(2_000)]
    assert "[×2000]" in compress("\n".join(lines), kind="log").text


def test_a_trace_stays_together_with_the_line_that_it_belongs_to():
    trace = (
        'ERROR job 7 failed\nTraceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: 41 is not 42'
    )
    shown = "ERROR job 7 failed\nTraceback:\n a.py:3 f\nValueError: 41 is not 42"
    assert shown in compress(f"{LOG}\n{trace}\n{LOG}", kind="log").text


def test_traces_say_once_what_they_have_in_common():
    def trace(line: int, said: str) -> str:
        return (
            "ERROR a job failed\nTraceback (most recent call last):\n"
            '  File "/srv/app/releases/41/main.py", line 7, in main\n    run(job)\n    ^^^^^^^^\n'
            f'  File "/srv/app/releases/41/jobs/pay.py", line {line}, in run\n    pay(job)\nValueError: {said}'
        )

    text = compress("\n".join(trace(line, f"no account {line}") for line in (12, 12, 40))).text
    assert text.count("/srv/app/releases/41/") == text.count("run(job)") == 1
    assert "^^^" not in text
    assert text.count("[…1 as before]\n A/jobs/pay.py:") == 2
    for line in (12, 40):
        assert f"A/jobs/pay.py:{line} run" in text
        assert f"ValueError: no account {line}" in text


# -- code


def test_bodies_go_and_signatures_stay():
    done = compress(PYTHON)
    assert done.kind == "code"
    stays = [
        "def pay(self, invoice: str, *, dry_run: bool = False) -> int:",
        '"""Pay an invoice once."""',
        "import asyncio",
        "async def refund(till: Till, amount: int) -> None:",
        "self.is_open = False",
    ]
    assert [line for line in stays if line not in done.text] == []
    assert "range(total)" not in done.text
    assert "… 6 lines (11-16)" in done.text


def test_a_body_that_the_query_asks_for_stays():
    assert "till.flush()" in compress(PYTHON, query="refund balance").text
    assert "range(total)" not in compress(PYTHON, query="refund balance").text


JAVASCRIPT = "function add(a, b) {\n  let c = a;\n  c += b;\n  c += 0;\n  return c;\n}\nconst x = 1;\n"
GO = "package main\n\nfunc add(a int, b int) int {\n\tc := a\n\tc += b\n\tc += 0\n\treturn c\n}\n"
RUST = "use std::fmt;\n\nfn add(a: i32) -> i32 {\n    let mut c = a;\n    c += b;\n    c += 2;\n    c\n}\n"


@pytest.mark.parametrize("source", [JAVASCRIPT, GO, RUST])
def test_other_languages_keep_their_signatures_too(source: str):
    text = compress(source * 3, kind="code").text
    assert text.count(" add(a") == 3
    assert "c += b" not in text


# -- markup, prose, diffs


def test_html_is_read_as_text():
    page = (
        "<html><head><style>p{color:red}</style></head><body><nav><a href='/'>Home</a></nav><h1>Setup</h1>"
        "<p>Install it with <b>pip</b>. It does not need root.</p>"
        + "<ul><li>one</li><li>two</li></ul><script>var a;</script>" * 5
        + "<pre>pip install x\n  --user</pre></body></html>"
    )
    text = compress(page).text
    assert "# Setup" in text
    assert "It does not need root." in text
    assert "pip install x\n  --user" in text
    assert "color" not in text
    assert "var a" not in text


def test_a_diff_keeps_what_changed():
    lines = [f" line {i}" for i in range(40)]
    diff = "\n".join(["--- a/x.py", "+++ b/x.py", "@@ -1,41 +1,41 @@", *lines, "-old = 1", "+new = 2", *lines])
    text = compress(diff).text
    assert "-old = 1\n+new = 2" in text
    assert "line 10" not in text


def test_numbers_paths_errors_and_negations_outlive_other_sentences():
    filler = "It was a day like many others and people talked about the weather in general terms. "
    telling = "The upload to /var/data/x.bin failed with error E1234. You must not retry it more than 3 times. "
    text = compress(filler * 6 + telling + filler * 6, kind="prose").text
    assert telling.strip() in text
    assert text.count("weather") < 12
    once = "It was a day like many others. "
    for kind in ("prose", "markdown"):
        assert telling.strip() in compress(once * 40 + telling + once * 40, kind=kind, budget=60).text


@pytest.mark.parametrize("kind", ["json", "log"])
def test_an_error_stays_where_hardly_anything_can_stay(kind: str):
    rows: list[dict[str, object]] = [{"id": f"ord_{i}", "state": "paid", "by": f"u{i}@x.org"} for i in range(60)]
    rows[37]["state"] = "FAILED: card declined"
    lines = [f"2026-11-22T10:00:{i:02}Z INFO step {'abcdefghij'[i % 10] * (i % 7 + 1)} is done" for i in range(60)]
    lines[37] = "2026-11-22T10:00:37Z ERROR the card was declined"
    text = compress(json.dumps(rows) if kind == "json" else "\n".join(lines), kind=kind, budget=70).text
    assert "declined" in text


# -- what holds for all


def test_the_last_line_says_how_to_get_what_was_left_out():
    done = compress(LOG, source="crdtsync get log/7")
    assert done.text.endswith("[shortened; in full: crdtsync get log/7]")
    assert done.left_out


def test_a_query_decides_what_stays_when_little_can_stay():
    text = "\n\n".join(f"Chapter {i} is about {name} and says a good deal of it." for i, name in enumerate(
        ["gardens", "rivers", "steam engines", "clouds", "glass", "bread"] * 20))  # fmt: skip
    assert "glass" in compress(text, budget=60, query="how is glass made").text


def test_small_texts_stay_as_they_are():
    assert compress('{"a": 1}').text == '{"a": 1}'


@pytest.mark.parametrize(
    "text, kind",
    [(json.dumps(RECORDS), "json"), (LOG, "log"), (PYTHON, "code"), ("# A\n\n- b\n- c\n\ntext", "markdown"),
     ("Once upon a time there was a queue. It was long.", "prose"), ("", "prose"),
     ("\n".join(f"{n},{n * n},{n % 7}" for n in range(200)), "prose"),
     ("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "diff"), ('{"a": 1', "prose")],
)  # fmt: skip
def test_the_kind_is_seen(text: str, kind: str):
    assert detect(text) == kind


SAMPLES = [
    json.dumps(RECORDS),
    json.dumps(RECORDS, indent=2),
    LOG,
    PYTHON,
    "<p>a</p>" * 30,
    "word " * 200,
    "- a\n# b\n" * 50,
]


@st.composite
def contents(draw: st.DrawFn) -> str:
    """A sample with a stretch cut out or doubled, or any text at all."""
    if draw(st.booleans()):
        return draw(st.text(max_size=2_000))
    sample = draw(st.sampled_from(SAMPLES))
    rng = random.Random(draw(st.integers(0, 10**6)))
    first, last = sorted(rng.randrange(len(sample)) for _ in range(2))
    return rng.choice([sample[:first] + sample[last:], sample[:last] + sample[first:], sample[first:last]])


@given(
    contents(), st.sampled_from(["auto", *KINDS]), st.integers(0, 400), st.sampled_from(["gpt-5", "claude", "gemini"])
)
def test_a_budget_is_never_exceeded_and_nothing_crashes(text: str, kind: str, budget: int, model: str):
    done = compress(text, kind=kind, budget=budget, model=model, query="disk task", source="crdtsync get x")
    assert count(done.text, model) == done.compressed_tokens <= budget
    assert done == compress(text, kind=kind, budget=budget, model=model, query="disk task", source="crdtsync get x")


@given(contents(), st.sampled_from(["auto", *KINDS]))
def test_without_a_budget_it_is_never_longer_than_it_was(text: str, kind: str):
    done = compress(text, kind=kind)
    assert done.compressed_tokens <= done.original_tokens == count(text)


@pytest.mark.parametrize("arguments", [{"kind": "poem"}, {"budget": -1}])
def test_what_cannot_be_meant_is_refused(arguments: dict[str, object]):
    with pytest.raises(InvalidRequest, match="must be"):
        compress("x", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [*KINDS, "auto"])
@pytest.mark.parametrize(
    "piece",
    [
        "a" + "." * 999,
        '"',
        "'",
        "0",
        "{",
        "[",
        "<p",
        "```\n",
        "a.b ",
        "# ",
        "/*",
        "(",
        ") ",
        "\n",
        " ",
        "é",
        "<p ",
        "<!--",
        "<![x>",
        "</x>",
        "<a b=",
        "def f(",
        "|",
        "@@",
        "\\",
        "1.",
        "- - ",
        "Error:",
        "http://",
    ],
)
def test_no_value_takes_its_readers_longer_than_its_length_is_worth(piece: str, kind: str):
    """Whoever reads a value pays for it: a quadratic way would take hours for what a key may hold."""
    compress(piece, kind=kind, budget=200)  # loads what it needs
    text = piece * (50_000 // len(piece))

    def took_s() -> float:
        start = process_time()
        compress(text, kind=kind, budget=200)
        return process_time() - start

    assert any(took_s() < 1 for _ in range(3))  # a busy machine, or a look for garbage, may make one of them long


@pytest.mark.parametrize(
    "line",
    [
        "tests/unit/test_{0}.py::test_{0}_is_kept[a b-{1}] PASSED [ {1}%]",
        "test_{0} (test.test_heapq.Test{1}.test_{0}) ... ok",
        "test module::{0}::works_{1} ... ok",
        "--- PASS: Test{0} (0.0{1}s)",
    ],
)
def test_tests_that_passed_are_counted_and_those_that_failed_are_kept(line: str):
    passed = [line.format("tuvwxyz"[number % 7] * (number + 1), number + 10) for number in range(18)]
    failed = (
        line.replace("PASSED", "FAILED").replace("PASS", "FAIL").replace("... ok", "... FAIL").format("upsilon", 77)
    )
    failed = failed.replace("test_upsilon (test.test_heapq.Test77.test_upsilon)", "test.test_heapq.Test77.test_upsilon")
    skipped = "test.test_heapq.Test99.test_omega ... skipped 'needs root'"
    done = compress("\n".join([*passed[:9], failed, skipped, *passed[9:], "Ran 20 tests"]), model="gpt-5")
    assert done.kind == "log"
    assert "[×18]" in done.text
    assert failed in done.text
    assert skipped in done.text
    assert "Ran 20 tests" in done.text
    assert done.savings_percent > 60


def test_what_could_never_fit_is_made_compact_once_and_no_other_way(monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []

    def counted(text: str, level: int, query: str | None) -> CompactDraft:
        made.append(level)
        return compact_prose(text, level, query)

    monkeypatch.setitem(_BY_KIND, "prose", counted)
    text = " ".join(f"The cache of host {i} is cold, and nobody knows why it is." for i in range(2_000))
    done = compress(text, kind="prose", budget=100)
    assert made == [4]
    monkeypatch.setattr("crdtsync.context.compact.compress._FAR", 10**9)
    assert compress(text, kind="prose", budget=100) == done


@pytest.mark.parametrize(
    "text", ["1", "+1", "-1", ".5", "1_0", "1e5", "inf", "Infinity", "NaN", "nan", "-inf", "١", "true", "null"]
)
def test_a_cell_is_quoted_where_it_would_be_taken_for_something_else(text: str) -> None:
    assert cell(text) == json.dumps(text, ensure_ascii=False)
    assert cell(f"x{text}") == f"x{text}"
