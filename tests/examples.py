"""Settings for properties that need more or fewer examples than the profile's number."""

from typing import Any

from hypothesis import settings


def examples(share: float, **more: Any) -> settings:
    """Return settings with this multiple of the profile's examples."""
    return settings(max_examples=max(1, round(settings().max_examples * share)), **more)
