from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser

from tests.journeys.delivery_targets import Targets, targets
from tests.web.browser import chromium


@pytest.fixture
def everywhere() -> Iterator[Targets]:
    """A receiver for every channel."""
    with targets() as found:
        yield found


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser
