"""A view whose sources outgrow the window that asks for it says so, before something has to be left out.

The daemon knows nothing of views, so whoever renders one raises the alarm, and ends it: a key that all hosts see, and
``crdtsync watch`` and ``doctor`` show. It is written when a view becomes too full or fits again, not each time.
"""

from __future__ import annotations

from typing import Any

from crdtsync.context.view.choose import View

ALARMS = "views.alarms/"
FULL = 0.7
"""From this part of the smallest window on."""
ALARM_TTL_S = 7 * 24 * 3600
"""A view that nobody asks for any more is no alarm for ever."""


def alarm_after(shown: View, budget_tokens: int, raised: object) -> dict[str, Any] | None:
    """The alarm that is to stand after a view was rendered, where ``raised`` stands; None: none."""
    stands = raised if isinstance(raised, dict) and is_alarm(raised) else None
    if shown.source_tokens > FULL * budget_tokens:
        if stands is not None and stands["budget_tokens"] <= budget_tokens:
            return stands
        return {"budget_tokens": budget_tokens, "source_tokens": shown.source_tokens}
    if stands is not None and stands["budget_tokens"] < budget_tokens:
        return stands  # a smaller window has asked, into which it did not fit
    return None


def is_alarm(value: object) -> bool:
    """Whether it is one: anybody may write other things there."""
    return isinstance(value, dict) and isinstance(value.get("budget_tokens"), int) and value["budget_tokens"] > 0
