"""How many tokens a text takes, by the model that will read it, offline.

OpenAI's vocabularies come with a package, so for its models the count is exact. Other vocabularies are not public, or
too large to bring along: there the count is an *estimate* that errs upwards, because a budget that is exceeded makes a
request fail, while one that is not used up costs nothing.

    tokenizer("gpt-5").count("hello world")            # 2, exact
    tokenizer("claude-opus-4-5").how                   # "an estimate for Claude: …"

How an estimate is made: the text is counted in ``cl100k_base``, times a factor of the family. Four things that
vocabularies treat differently are added: digits (some read each by itself, OpenAI three at a time), letters beyond
ASCII, line breaks before an indentation, and underscores within names. The factors were fitted to public vocabularies
(Claude 2, Gemini 1, Gemma 3, Llama 3, DeepSeek 3, Mistral's Tekken) on windows of 4,000 characters of English prose,
code, JSON, logs, HTML and 15 languages; ``benchmarks.vocabularies`` compares them with three of these. Newer
vocabularies of these families are not public; for them it is a guess of the same kind.

A vocabulary takes 37 MB of memory. What runs fifty times on a host counts for the model ``any`` instead: by the looks
of the text alone. Those weights were fitted to ``cl100k_base`` on 1,100 windows of the same kinds, in 22 languages:
15% too many on average, more than 5% too few in 2 of 100, which were tables of characters or of codes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from crdtsync.context.extras import need
from crdtsync.context.given import expect
from crdtsync.context.given import texts as given_texts

DEFAULT_MODEL = "claude"
"""The model that is meant where none is named: the family whose estimate is the most cautious of the named ones."""
ANY_MODEL = "any"
"""A model as cautious as that, counted without a vocabulary."""

_CUT_TRIES_MAX = 40
_DIGITS = re.compile(r"[0-9]+")
_INDENTED = re.compile(r"\n[ \t]")
_JOINED = re.compile(r"[A-Za-z0-9]_(?=[A-Za-z])")
_ONE_THREAD_CHARS = 1_000_000  # each thread beyond the first takes 16 MB
_CODED = re.compile(r"[A-Za-z0-9+/=]{20,}")  # with a digit: hashes, base64
_DIGIT = re.compile(r"[0-9]")
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{3,}")
_LOOKS = (  # tokens of a match, and of each of its characters beyond so many
    (re.compile(r"[A-Z]?[a-z]+|[A-Z]+"), 0.9, 0.7, 5),
    (re.compile(r"[0-9]{1,3}"), 1.3, 0.0, 3),
    (re.compile(r"[!-/:-@\[-`{-~]+"), 0.75, 0.67, 3),
    (re.compile(r"\s{2,}|\n"), 1.05, 0.0, 0),
    (re.compile(r"[\x00-\x08\x0e-\x1f\x7f]+"), 0.0, 1.0, 0),
)
_FOREIGN_LOOKS = (
    (re.compile(r"[\x80-\u024f]+"), 0.0, 1.4, 0),
    (re.compile(r"[\u0250-\u07ff]+"), 0.0, 0.7, 0),  # Greek, Cyrillic, Hebrew, Arabic
    (re.compile(r"[\u3040-\u30ff\uff00-\uffef]+"), 0.0, 0.6, 0),  # kana
    (re.compile(r"[\u2000-\u2fff]+"), 0.0, 1.2, 0),  # signs
    (re.compile(r"[\u0800-\u1fff\u3000-\u303f\u3100-\ufeff\ufff0-\uffff]+"), 0.0, 2.1, 0),
    (re.compile(r"[\U00010000-\U0010ffff]+"), 0.0, 3.3, 0),
)
_FOREIGN_FULL = 0.3  # from this share of letters beyond ASCII on, a text counts as written in another script


@dataclass(frozen=True, slots=True)
class _Family:
    """How the texts for one family of models are counted; an empty ``encoding``: by their looks.

    ``factor`` multiplies the count of ``encoding``, and grows to ``foreign`` as letters beyond ASCII get more. 1.0 in
    both, and neither digits nor breaks: the count is exact.
    """

    name: str
    models: str  # a pattern, matched at the beginning of a name
    encoding: str = "cl100k_base"
    factor: float = 1.0
    foreign: float = 1.0
    digits: bool = False
    breaks: bool = False
    names: float = 0.0  # tokens for each underscore within a name

    @property
    def exact(self) -> bool:
        return self.factor == self.foreign == 1.0 and not (self.digits or self.breaks or self.names)


_FAMILIES = (
    _Family("any model", rf"{ANY_MODEL}$", "", factor=1.2, foreign=1.8),
    _Family("GPT-OSS", r"gpt-oss", "o200k_harmony"),
    _Family("GPT-4o and newer", r"gpt-4o|gpt-4\.[15]|gpt-[5-9]|chatgpt|codex|o[1-9](?![0-9a-z])|o200k", "o200k_base"),
    _Family("GPT-4", r"gpt-4|gpt-3|text-embedding-|cl100k"),
    _Family("Qwen 3.5", r"qwen-?3\.5", "qwen3.5"),
    _Family("Claude", r"claude|opus|sonnet|haiku|fable", factor=1.2, foreign=1.8, names=0.4),
    _Family("Gemini and Gemma", r"gemini|gemma", factor=1.12, foreign=1.12, digits=True, breaks=True, names=0.8),
    _Family("Llama", r"(meta-)?llama", factor=1.0, foreign=1.05),
    _Family("Mistral", r"(mi[sx]|codes|devs|magis|minis)tral", factor=1.1, foreign=1.45, digits=True, breaks=True),
    _Family("DeepSeek", r"deepseek", factor=1.1, foreign=1.1),
    _Family("Qwen", r"qwen|qwq", "qwen3.5", factor=1.1, foreign=1.2),
)
_UNKNOWN = _Family("a model that is not known here", "", factor=1.25, foreign=1.8, digits=True, breaks=True, names=0.8)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Counts for one model. Pure and quick: some 10 MB a second and more."""

    model: str
    _family: _Family

    @property
    def exact(self) -> bool:
        """Whether the counts are the model's own."""
        return self._family.exact

    @property
    def how(self) -> str:
        """How the counts come about, for a person."""
        family = self._family
        if self.exact:
            return f"exact, by the vocabulary {family.encoding}"
        high = f" to {family.foreign:g}" if family.foreign > family.factor else ""
        counted = family.encoding or "the looks of the text"
        return f"an estimate for {family.name}: {counted} times {family.factor:g}{high}"

    def count(self, text: str) -> int:
        """The tokens of ``text``."""
        expect(str, text=text)
        return self.counts([text])[0]

    def counts(self, texts: Iterable[str]) -> list[int]:
        """The tokens of each of ``texts``; much quicker than one at a time where these are many."""
        texts = given_texts("texts", texts)
        if self._family.encoding:
            threads = 1 if sum(map(len, texts)) <= _ONE_THREAD_CHARS else 0
            counted = need("toktok").batch_count([_valid(text) for text in texts], self._family.encoding, threads)
        else:
            counted = [_by_looks(text) for text in texts]
        if self.exact:
            return [int(count) for count in counted]
        return [self._estimate(text, count) for text, count in zip(texts, counted, strict=True)]

    def truncate(self, text: str, tokens: int) -> str:
        """The longest beginning of ``text`` that was found to take ``tokens`` at most; "" if there is none."""
        expect(str, text=text)
        expect(int, tokens=tokens)
        if tokens <= 0:
            return ""
        low, high = 0, 4 * tokens
        while self.count(text[:high]) <= tokens:
            if high >= len(text):
                return text
            low, high = high, 4 * high
        for _ in range(_CUT_TRIES_MAX):
            middle = (low + high) // 2
            if middle == low:
                break
            low, high = (middle, high) if self.count(text[:middle]) <= tokens else (low, middle)
        return text[:low]

    def _estimate(self, text: str, counted: float) -> int:
        family = self._family
        share = 0.0 if text.isascii() else sum(map("\x7f".__lt__, text)) / len(text)
        factor = family.factor + (family.foreign - family.factor) * min(1.0, share / _FOREIGN_FULL)
        extra = 0
        if family.digits:
            extra += sum(len(run) - math.ceil(len(run) / 3) for run in _DIGITS.findall(text))
        if family.breaks:
            extra += len(_INDENTED.findall(text))
        joined = len(_JOINED.findall(text)) if family.names else 0
        return math.ceil(counted * factor + joined * family.names) + extra


def count(text: str, model: str = DEFAULT_MODEL) -> int:
    """The tokens of ``text`` for ``model``; :func:`tokenizer` says whether that is exact."""
    return tokenizer(model).count(text)


count_tokens = count
"""The same, for who imports it where ``count`` says too little."""


def tokenizer(model: str = DEFAULT_MODEL) -> Tokenizer:
    """The tokenizer for ``model``: a name as its provider writes it, with or without the provider before a slash."""
    expect(str, model=model)
    return _tokenizer(model)


@lru_cache(maxsize=256)
def _tokenizer(model: str) -> Tokenizer:
    name = model.strip().lower().rsplit("/", 1)[-1]
    family = next((family for family in _FAMILIES if re.match(family.models, name)), _UNKNOWN)
    return Tokenizer(model, family)


def _by_looks(text: str) -> float:
    """About the tokens of ``text`` in ``cl100k_base``, rather too many."""
    rest, rules = _RULE.subn(" ", text)
    coded = [run for run in _CODED.findall(rest) if _DIGIT.search(run)]
    if coded:
        rest = _CODED.sub(lambda run: " " if _DIGIT.search(run[0]) else run[0], rest)
    found = rules + 0.75 * sum(map(len, coded))
    for look, each, beyond, start in _LOOKS if rest.isascii() else _LOOKS + _FOREIGN_LOOKS:
        lengths = list(map(len, look.findall(rest)))
        found += each * len(lengths)
        if beyond:
            found += beyond * sum(length - start for length in lengths if length > start)
    return found


def _valid(text: str) -> str:
    """``text`` without halves of surrogate pairs, which no vocabulary knows; each is one character to count."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
