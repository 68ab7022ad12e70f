from typing import Any

from safetyd.bus.micro import Micro
from safetyd.bus.subjects import Subjects
from tests.captured_connection import REPLY, CapturedPublisher
from tests.story import NOON


async def asked(subject: bytes) -> dict[str, Any]:
    captured = CapturedPublisher()
    micro = Micro(
        captured.publisher,
        Subjects(),
        version="0.1.0",
        boot_id="b00t",
        started=NOON,
        decisions=lambda: 42,
    )
    micro.answer(subject, REPLY, b"")
    return captured.answer()


async def test_ping_returns_the_name_id_and_version() -> None:
    assert await asked(b"$SRV.PING") == {
        "type": "io.nats.micro.v1.ping_response",
        "name": "safetyd",
        "id": "b00t",
        "version": "0.1.0",
        "metadata": {},
    }


async def test_info_lists_the_endpoints_for_agents() -> None:
    info = await asked(b"$SRV.INFO.safetyd")

    assert info["type"] == "io.nats.micro.v1.info_response"
    assert [e["subject"] for e in info["endpoints"]] == [
        "safety.v1.propose.*",
        "safety.v1.permission.*",
        "safety.v1.claim.*",
        "safety.v1.telemetry.*",
    ]


async def test_stats_count_decisions_since_the_start() -> None:
    stats = await asked(b"$SRV.STATS")

    assert stats["type"] == "io.nats.micro.v1.stats_response"
    assert stats["started"] == "2026-03-01T12:00:00Z"
    assert [e["num_requests"] for e in stats["endpoints"]] == [42]
