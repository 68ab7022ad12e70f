"""How many examples a property is shown: more or fewer than the profile of the run says."""

from typing import Any

from hypothesis import settings


def examples(share: float, **more: Any) -> settings:
    """Return settings with so many times the examples of the profile."""
    return settings(max_examples=max(1, round(settings().max_examples * share)), **more)
