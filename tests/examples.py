"""How many examples a property tries: 25 at every change, 1,000 by night, and more where faults hide well.

``./dev test --hypothesis-profile=nightly --timeout=0`` takes the larger number.
"""

from __future__ import annotations

from hypothesis import settings

PROFILES = {"ci": 25, "nightly": 1000}


def examples(count: int) -> settings:
    """So many in the profile ``ci``, whatever that has; in ``nightly`` as many as that has, if they are more."""
    is_nightly = settings.default is not None and settings.default.max_examples >= PROFILES["nightly"]
    return settings(max_examples=max(count, PROFILES["nightly"]) if is_nightly else count)
