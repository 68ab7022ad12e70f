from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.client.daemon_stand_in import DaemonStandIn
from tests.nats_process import NatsProcess


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data directory. The environment sets no other option of the client."""
    for name in ("URL", "KEY_FILE", "ENABLED"):
        monkeypatch.delenv(f"SAFETYD_{name}", raising=False)
    monkeypatch.delenv("AI_COMPANY_ENABLED", raising=False)
    directory = tmp_path / "data"
    directory.mkdir()
    monkeypatch.setenv("SAFETYD_DATA_DIR", str(directory))
    return directory


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[NatsProcess]:
    server = NatsProcess(tmp_path)
    yield server
    server.stop()


@pytest.fixture
async def daemon(bus: NatsProcess) -> AsyncIterator[DaemonStandIn]:
    async with DaemonStandIn(bus.url) as daemon:
        yield daemon
