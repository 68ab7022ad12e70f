"""Fixtures of the bus tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bus.server_rig import Embedded


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Embedded]:
    server = Embedded(tmp_path)
    server.start()
    yield server
    server.stop()
