from collections.abc import Iterator
from pathlib import Path

import anyio
import nkeys
import pytest
from nacl.signing import SigningKey

from safetyd.client import Safety
from tests.client.assertions import assert_unavailable
from tests.client.daemon_stand_in import DaemonStandIn
from tests.nats_process import NatsProcess

KEYED = """
accounts {{ A {{ users: [ {{ nkey: {key}, permissions {{
  publish: {{ allow: ["safety.v1.propose.code", "safety.v1.telemetry.code"] }}
  subscribe: {{ allow: ["safety.v1.decision.code.*", "safety.v1.state.stop",
                        "_INBOX.agent.code.>"] }} }} }}
  {{ user: daemon, password: pw }} ] }} }}
"""


class Keys:
    """A bus that accepts one agent, `code`, with its key."""

    def __init__(self, directory: Path) -> None:
        seed = nkeys.encode_seed(bytes(SigningKey.generate()), nkeys.PREFIX_BYTE_USER)
        self.seed = bytes(seed) + b"\n"
        public = nkeys.from_seed(bytearray(seed)).public_key.decode()
        self.bus = NatsProcess(directory, KEYED.format(key=public))
        self.daemon_url = self.bus.url.replace("//", "//daemon:pw@")


@pytest.fixture
def keyed(tmp_path: Path, data_dir: Path) -> Iterator[Keys]:
    keys = Keys(tmp_path)
    own = data_dir / "keys" / "agents" / "code.nk"
    own.parent.mkdir(parents=True)
    own.write_bytes(keys.seed)
    yield keys
    keys.bus.stop()


async def test_an_agent_with_a_key_gets_answers(keyed: Keys) -> None:
    async with DaemonStandIn(keyed.daemon_url), Safety("code", url=keyed.bus.url) as safety:
        decision = await safety.propose("read_file")
        told = await safety.heartbeat()

    assert decision.allowed
    assert told


async def test_the_error_tells_an_agent_without_a_key_how_to_get_one(keyed: Keys) -> None:
    async with Safety("other", url=keyed.bus.url) as safety:
        decision = await safety.propose("read_file")

    assert_unavailable(decision, "safetyd agent add other")


async def test_an_agent_with_another_agents_key_is_rejected_immediately(
    keyed: Keys, data_dir: Path
) -> None:
    key = data_dir / "keys" / "agents" / "code.nk"
    async with DaemonStandIn(keyed.daemon_url) as daemon:
        async with Safety("other", url=keyed.bus.url, key_file=key, deadline_s=30) as safety:
            with anyio.fail_after(5):
                decision = await safety.propose("read_file")

        assert_unavailable(decision, "agent other")
        assert daemon.unread() == 0
