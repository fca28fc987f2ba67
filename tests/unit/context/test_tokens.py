"""Counts of tokens: exact where the vocabulary is known, never far below the truth elsewhere."""

from __future__ import annotations

import pytest

from crdtsync.context.tokens import count, tokenizer
from crdtsync.errors import InvalidRequest


@pytest.mark.parametrize(
    "model, tokens",
    [("gpt-5", 9), ("openai/gpt-4o-mini", 9), ("gpt-4", 9), ("gpt-oss-120b", 9), ("qwen3.5-72b", 9)],
)
def test_a_known_vocabulary_is_counted_exactly(model: str, tokens: int):
    assert tokenizer(model).exact
    assert count("The quick brown fox jumps over the dog.", model) == tokens


@pytest.mark.parametrize(
    "model, family",
    [
        ("claude-opus-4-5", "Claude"),
        ("anthropic/claude-sonnet-4", "Claude"),
        ("gemini-2.5-pro", "Gemini"),
        ("meta-llama/Llama-3.1-8B", "Llama"),
        ("mixtral-8x7b", "Mistral"),
        ("deepseek-chat", "DeepSeek"),
        ("something-new", "not known"),
    ],
)
def test_another_model_says_which_estimate_it_got(model: str, family: str):
    counter = tokenizer(model)
    assert not counter.exact
    assert "estimate" in counter.how
    assert family in counter.how


def test_an_estimate_counts_digits_one_by_one_where_the_family_reads_them_so():
    digits = "0123456789" * 20
    assert count(digits, "gemini-2.5-pro") >= 190
    assert count(digits, "llama-3") < 100


@pytest.mark.parametrize("model", ["claude", "gemini", "some-model"])
def test_underscores_within_names_count_where_the_family_reads_them_by_themselves(model: str):
    joined, apart = "test_base_encode_value " * 50, "test base encode value " * 50
    assert count(joined, model) >= count(apart, model) + 50


def test_an_unknown_model_counts_no_less_than_any_named_family():
    for text in ("Plain words.", "x = 12345\n    y = 6", "Γειά σου Κόσμε, τι κάνεις;", "{'a': [1, 22, 333]}"):
        unknown = count(text, "something-new")
        assert unknown >= max(count(text, model) for model in ("claude-x", "gemini-x", "llama-3", "deepseek-x"))


@pytest.mark.parametrize("model", ["gpt-5", "claude", "gemini", "something-new", "any"])
@pytest.mark.parametrize("tokens", [0, 1, 7, 100])
def test_a_cut_text_keeps_its_budget_and_wastes_little(model: str, tokens: int):
    counter = tokenizer(model)
    text = "Zwölf Boxkämpfer jagen Viktor 12345 quer über den großen Sylter Deich.\n    " * 40
    cut = counter.truncate(text, tokens)
    assert text.startswith(cut)
    assert counter.count(cut) <= tokens
    assert counter.count(cut) >= tokens - 6


@pytest.mark.parametrize("model", ["gpt-5", "any"])
def test_only_text_has_tokens(model: str):
    with pytest.raises(InvalidRequest, match="text takes str, not b'x'"):
        tokenizer(model).count(b"x")  # type: ignore[arg-type]


def test_half_a_surrogate_pair_is_counted_too():
    assert count("a\ud800b", "gpt-5") >= 2
    assert count("a\ud800b", "claude") >= 2
    assert count("a\ud800b", "any") >= 2


@pytest.mark.parametrize(
    "text",
    [
        "The build of the parser failed twice; nobody knows why.\n" * 9,
        "def parse(self, text: str) -> list[Token]:\n    return [Token(t) for t in text.split()]\n" * 9,
        '{"id": 48151, "name": "getElementById", "ok": true, "at": "2026-11-23T12:00:00Z"}\n' * 9,
        "3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b\n" * 9,
        "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.\n" * 9,
        "Слова другого языка тоже считаются.\n" * 9,
        "これは日本語の文章です。漢字も仮名もあります。\n" * 9,
        "这是中文。它也必须计算在内。\n" * 9,
        "!@#$%^&*()_+-=[]{};:,./<>?|~" * 9,
        "ok ✅ → 🚀 │ a │ b │ — “quoted”…\n" * 9,
    ],
)
def test_without_a_vocabulary_the_count_is_near_and_above(text: str):
    exact = count(text, "gpt-4")
    assert exact <= count(text, "any") <= 4 * exact
    assert "looks" in tokenizer("any").how


def test_many_texts_at_once_are_counted_as_one_by_one():
    texts = ["", "a", "one two three", "12 34", "äöü"]
    for model in ("gpt-5", "claude", "mistral", "any"):
        assert tokenizer(model).counts(texts) == [count(text, model) for text in texts]
