"""Agents with keys, and any number of anonymous agents, over the bus."""

from itertools import count
from typing import Any, Final, Self

import msgspec

from safetyd.bus.keyring import Keyring
from tests.bus.peer import Peer
from tests.conftest import RunningDaemon, StartDaemon

Reply = dict[str, Any]

_numbers: Final = count(1)


class Caller:
    """One connection of an agent with a key, or of anonymous agents."""

    def __init__(self, daemon: RunningDaemon, agent: str | None = None) -> None:
        seed, inbox = None, f"_INBOX.caller.{next(_numbers)}"
        if agent is not None:
            seed = daemon.data_dir / "keys" / "agents" / f"{agent}.nk"
            inbox = f"_INBOX.agent.{agent}"
        self._agent = agent
        self._peer = Peer(daemon.endpoint.bus, seed, inbox)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.close()

    def proposes(self, name: str | None = None, **fields: object) -> Reply:
        return self._ask("propose", name, {"type": "read_file", **fields})

    def reports(self, name: str | None = None, **fields: object) -> Reply:
        return self._ask("telemetry", name, {"type": "outcome", "ok": True, **fields})

    def succeeds(self, name: str | None = None, **fields: object) -> Reply:
        """Propose an action and report success if it was allowed."""
        return self._ends(name, fields, ok=True)

    def fails(self, name: str | None = None, **fields: object) -> Reply:
        """Propose an action and report a dependency failure if it was allowed."""
        return self._ends(name, fields, ok=False)

    def _ends(self, name: str | None, fields: Reply, *, ok: bool) -> Reply:
        asked = self.proposes(name, **fields)
        if asked["decision"] == "allow":
            self.reports(name, id=asked["id"], ok=ok, dependency=fields["dependency"])
        return asked

    def _ask(self, verb: str, name: str | None, fields: Reply) -> Reply:
        payload = msgspec.json.encode(fields)
        return self._peer.ask(f"safety.v1.{verb}.{name or self._agent}", payload).fields


def with_keys(
    start: StartDaemon, config_toml: str, *names: str, heard: bool = True
) -> RunningDaemon:
    """Start a daemon with keys for these agents; by default each has already proposed once."""
    daemon = start(config_toml)
    for name in names:
        Keyring(daemon.data_dir / "keys").add("agents", name)
    daemon.restart()
    for name in names if heard else ():
        with Caller(daemon, name) as caller:
            assert caller.proposes()["decision"] == "allow"
    return daemon
