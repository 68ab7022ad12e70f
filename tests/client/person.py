"""An operator of a real daemon, for agents that wait for approval."""

from pathlib import Path
from typing import Any

import msgspec

from tests.bus.peer import Peer
from tests.conftest import RunningDaemon
from tests.servers import until

Reply = dict[str, Any]


class Person:
    """The local operator, who lists and answers pending requests."""

    def __init__(self, daemon: RunningDaemon, key: Path | None = None) -> None:
        self._daemon = daemon
        self._key = key or daemon.data_dir / "keys" / "operator.nk"

    def waiting(self, agent: str) -> list[Reply]:
        """Return the pending requests of an agent."""
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
        """Wait for the only pending request of an agent and return its id."""
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
