"""A person at a real daemon, for agents that wait for one."""

from pathlib import Path
from typing import Any

import msgspec

from tests.bus.peer import Peer
from tests.conftest import RunningDaemon
from tests.servers import until

Reply = dict[str, Any]


class Person:
    """The local operator: what waits for one, and the answers."""

    def __init__(self, daemon: RunningDaemon, key: Path | None = None) -> None:
        self._daemon = daemon
        self._key = key or daemon.data_dir / "keys" / "operator.nk"

    def waiting(self, agent: str) -> list[Reply]:
        """Return the requests of an agent that are pending."""
        found: list[Reply] = self._ask("query", "pending", agent=agent)["requests"]
        return found

    def card(self, request_id: str) -> Reply:
        found: Reply = self._ask("query", "request", id=request_id)["request"]
        return found

    def approve(self, request_id: str, message: str = "") -> None:
        self._answer("approve", request_id, message=message)

    def deny(self, request_id: str, reason: str = "") -> None:
        self._answer("deny", request_id, reason=reason)

    async def asked(self, agent: str) -> str:
        """Return the id of the one request of an agent, once there is one."""
        await until(lambda: self.waiting(agent))
        (request,) = self.waiting(agent)
        return str(request["id"])

    def _answer(self, command: str, request_id: str, **fields: object) -> None:
        (result,) = self._ask("review", command, ids=[request_id], **fields)["results"]
        assert result["ok"], result

    def _ask(self, verb: str, command: str, **fields: object) -> Reply:
        with Peer(self._daemon.endpoint.bus, self._key, "_INBOX.op.local") as peer:
            payload = msgspec.json.encode({"command": command, **fields})
            answer = peer.ask(f"safety.v1.{verb}.local", payload).fields
        assert answer["ok"], answer
        return answer
