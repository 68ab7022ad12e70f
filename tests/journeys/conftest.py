"""Journeys measure times, and being measured themselves would slow the daemon down."""

from collections.abc import Iterator

import pytest

MEASURED = "COVERAGE_PROCESS_CONFIG"


@pytest.fixture(autouse=True, scope="package")
def unmeasured() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(MEASURED, raising=False)
        yield
