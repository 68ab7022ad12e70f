"""An agent that asks, people who answer, and executors that claim, over the bus."""

from itertools import count
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from tests.bus.peer import Peer
from tests.conftest import RunningDaemon

Reply = dict[str, Any]

_numbers: Final = count()
PUSH: Final = {"type": "push", "text": "git push origin main"}


class Asker:
    """One agent, without a key unless it is given, on one connection."""

    def __init__(self, daemon: RunningDaemon, name: str = "code", key: Path | None = None) -> None:
        self.name = name
        # Those without a key hear one another.
        whose = "asker" if key is None else f"agent.{name}"
        self._inbox = f"_INBOX.{whose}.{next(_numbers)}"
        self.peer = Peer(daemon.endpoint.bus, key, inbox=self._inbox)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.peer.close()

    def propose(self, id_: str, **fields: object) -> Reply:
        return self.ask("propose", {**PUSH, "id": id_, **fields})

    def wait_for(self, id_: str) -> int:
        """Propose what a person is asked about, and return where the answer will be heard."""
        inbox = f"{self._inbox}.wait-{id_}"
        heard = self.peer.subscribe(inbox)
        payload = msgspec.json.encode({**PUSH, "id": id_, "wait": True})
        self.peer.publish(f"safety.v1.propose.{self.name}", payload, inbox)
        self.peer.settle()
        return heard

    def claim(self, asked: Reply, claimant: str) -> Reply:
        """Claim what was asked about, under the id that asked."""
        named = {"id": asked["id"], "digest": asked["digest"], "claimant": claimant}
        return self.ask("claim", named)

    def ask(self, verb: str, fields: Reply) -> Reply:
        payload = msgspec.json.encode(fields)
        return self.peer.ask(f"safety.v1.{verb}.{self.name}", payload).fields


def request_of(peer: Peer, name: str, **fields: object) -> str:
    """Propose what a person is asked about, under a name, and return the request."""
    payload = msgspec.json.encode({**PUSH, "id": "p1", **fields})
    decision: Reply = peer.ask(f"safety.v1.propose.{name}", payload).fields
    assert decision["status"] == "pending", decision
    return str(decision["request_id"])


def requests_with_key(
    daemon: RunningDaemon, name: str, count: int = 1, **fields: object
) -> list[str]:
    """Let an agent with a key ask so often, each time about something else."""
    key = daemon.data_dir / "keys" / "agents" / f"{name}.nk"
    texts = {f"p{number}": f"git push origin {name} p{number}" for number in range(count)}
    with Peer(daemon.endpoint.bus, key, f"_INBOX.agent.{name}") as peer:
        return [request_of(peer, name, id=i, text=text, **fields) for i, text in texts.items()]


def requests_of_many(daemon: RunningDaemon, count: int, **fields: object) -> list[str]:
    """Ask under so many names that somebody made up."""
    with Asker(daemon) as asker:
        names = (f"made-up-{number}" for number in range(count))
        return [request_of(asker.peer, name, **fields) for name in names]


def review(
    daemon: RunningDaemon,
    command: str,
    *ids: str,
    by: str = "local",
    key: Path | None = None,
    **fields: object,
) -> Reply:
    """Answer as an operator and return the result for the first id."""
    own = daemon.data_dir / "keys" / "operator.nk"
    with Peer(daemon.endpoint.bus, key or own, f"_INBOX.op.{by}") as peer:
        payload = msgspec.json.encode({"command": command, "ids": ids, **fields})
        reply = peer.ask(f"safety.v1.review.{by}", payload).fields
    result: Reply = reply["results"][0]
    return result


def waiting(daemon: RunningDaemon) -> list[Reply]:
    """Return what waits for a person."""
    own = daemon.data_dir / "keys" / "operator.nk"
    with Peer(daemon.endpoint.bus, own, "_INBOX.op.local") as peer:
        reply = peer.ask("safety.v1.query.local", b'{"command":"pending"}').fields
    rows: list[Reply] = reply["requests"]
    return rows
