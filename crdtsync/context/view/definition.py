"""A named view, as it is stored under ``views/NAME`` and shared by all hosts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from crdtsync.context.given import expect, expect_count, expect_one, texts
from crdtsync.context.tokens import DEFAULT_MODEL
from crdtsync.context.view.render import FORMATS
from crdtsync.errors import InvalidRequest, InvalidValue

VIEWS = "views/"
BUDGET_TOKENS = 4_000
RECORDS = (
    "claims/", "context.blob/", "context.full/", "presence/", "progress/", "reactions/", "sessions.excluded/",
    "sessions.lines/", "sessions/",
    "views.alarms/", "views.summaries/", VIEWS,
)  # fmt: skip
"""Keys for programs: shown where a prefix begins so, and not in a view of everything."""

STRATEGIES = ("best", "newest", "tiers")


@dataclass(frozen=True, slots=True)
class Definition:
    """A view shows everything under ``prefixes``, at most ``budget_tokens``, counted for ``model``.

    ``strategy``: ``best`` takes entries by their score, ``newest`` by their time alone; ``tiers`` likewise, and what is
    not among the ``full_newest`` gets 80 tokens at most. ``summarize_after``: all but so
    many of the newest entries are shown by a summary, once there is one.
    """

    prefixes: tuple[str, ...] = ("",)
    budget_tokens: int = BUDGET_TOKENS
    query: str | None = None
    role: str | None = None
    model: str = DEFAULT_MODEL
    form: str = "markdown"
    pinned: tuple[str, ...] = ()
    full_newest: int = 8
    summarize_after: int | None = None
    strategy: str = "best"

    def __post_init__(self) -> None:
        for name in ("prefixes", "pinned"):
            object.__setattr__(self, name, texts(name, getattr(self, name)))
        expect(str, model=self.model)
        expect(str | None, query=self.query, role=self.role)
        expect_one(FORMATS, form=self.form)
        expect_one(STRATEGIES, strategy=self.strategy)
        expect_count(1, budget_tokens=self.budget_tokens)
        expect_count(0, full_newest=self.full_newest)
        if self.summarize_after is not None:
            expect_count(0, summarize_after=self.summarize_after)

    def covers(self, key: str) -> bool:
        """Whether ``key`` is one that it is about."""
        hidden = hidden_by(key)
        return key in self.pinned or any(key.startswith(one) and one.startswith(hidden) for one in self.prefixes)

    def plain(self) -> dict[str, Any]:
        """As it is stored."""
        return asdict(self) | {"prefixes": list(self.prefixes), "pinned": list(self.pinned)}


def hidden_by(key: str) -> str:
    """Which of :data:`RECORDS` a prefix must name so that ``key`` is shown; "": none."""
    return next((record for record in RECORDS if key.startswith(record)), "")


def definition_from(name: str, stored: object) -> Definition:
    """The view that is stored; :class:`~crdtsync.errors.InvalidValue` if somebody stored something else there."""
    try:
        fields = dict(stored)  # type: ignore[call-overload]  # what is stored there may be anything
        return Definition(**{field: fields[field] for field in Definition.__dataclass_fields__ if field in fields})
    except (TypeError, ValueError, InvalidRequest) as error:
        raise InvalidValue(f"{VIEWS}{name} does not hold a view ({error}): define it anew") from error
