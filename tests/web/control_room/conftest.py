from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.web.control_room.room_site import Browser, RoomSite, room_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[RoomSite]:
    async with room_site(tmp_path) as site:
        yield site


@pytest.fixture
async def alice(site: RoomSite) -> AsyncIterator[Browser]:
    async with site.browser("alice") as browser:
        yield browser


@pytest.fixture
async def eve(site: RoomSite) -> AsyncIterator[Browser]:
    """An observer, who cannot act."""
    async with site.browser("eve") as browser:
        yield browser
