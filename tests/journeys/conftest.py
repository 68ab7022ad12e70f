from collections.abc import Iterator

import pytest

from tests.journeys.delivery_targets import Targets, targets


@pytest.fixture
def everywhere() -> Iterator[Targets]:
    """Everywhere that people can be told."""
    with targets() as found:
        yield found
