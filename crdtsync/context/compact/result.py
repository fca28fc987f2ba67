"""The outcome of compressing: the text, what was done to it, and what it left out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class CompactDraft:
    """The draft that one kind's module made of a text, before tokens are counted.

    ``transforms`` names what was done, ``left_out`` says in words what is not in ``text`` any more.
    """

    text: str
    transforms: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Compact:
    """A text and what was saved. ``left_out`` is empty where nothing was lost but form.

    ``original_tokens`` and ``compressed_tokens`` are counted for ``model``; ``kind`` says how the text was read.
    """

    text: str
    kind: str
    model: str
    original_tokens: int
    compressed_tokens: int
    transforms: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def savings_percent(self) -> float:
        """How much less it is, of 100; 0.0 for an empty text."""
        return savings(self.original_tokens, self.compressed_tokens)


def savings(before: int, after: int) -> float:
    """How much less ``after`` is than ``before``, of 100."""
    return round(100 * (1 - after / before), 1) if before else 0.0
