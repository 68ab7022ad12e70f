"""An agent that proposes, operators who answer, and executors that claim, over the bus."""

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
    """One agent on one connection; anonymous unless it is given a key."""

    def __init__(self, daemon: RunningDaemon, name: str = "code", key: Path | None = None) -> None:
        self.name = name
        # Anonymous agents share one inbox.
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
        """Propose something that needs approval, and return the subject of the final answer."""
        inbox = f"{self._inbox}.wait-{id_}"
        heard = self.peer.subscribe(inbox)
        payload = msgspec.json.encode({**PUSH, "id": id_, "wait": True})
        self.peer.publish(f"safety.v1.propose.{self.name}", payload, inbox)
        self.peer.settle()
        return heard

    def claim(self, asked: Reply, claimant: str) -> Reply:
        """Claim the approved action under the id of its proposal."""
        named = {"id": asked["id"], "digest": asked["digest"], "claimant": claimant}
        return self.ask("claim", named)

    def ask(self, verb: str, fields: Reply) -> Reply:
        payload = msgspec.json.encode(fields)
        return self.peer.ask(f"safety.v1.{verb}.{self.name}", payload).fields


def request_of(peer: Peer, name: str, **fields: object) -> str:
    """Propose something that needs approval, under this name, and return the request."""
    payload = msgspec.json.encode({**PUSH, "id": "p1", **fields})
    decision: Reply = peer.ask(f"safety.v1.propose.{name}", payload).fields
    assert decision["status"] == "pending", decision
    return str(decision["request_id"])


def requests_with_key(
    daemon: RunningDaemon, name: str, count: int = 1, **fields: object
) -> list[str]:
    """Let an agent with a key make this many different requests."""
    key = daemon.data_dir / "keys" / "agents" / f"{name}.nk"
    texts = {f"p{number}": f"git push origin {name} p{number}" for number in range(count)}
    with Peer(daemon.endpoint.bus, key, f"_INBOX.agent.{name}") as peer:
        return [request_of(peer, name, id=i, text=text, **fields) for i, text in texts.items()]


def requests_of_many(daemon: RunningDaemon, count: int, **fields: object) -> list[str]:
    """Make a request under each of this many invented names."""
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
    """Answer requests as an operator and return the result for the first id."""
    own = daemon.data_dir / "keys" / "operator.nk"
    with Peer(daemon.endpoint.bus, key or own, f"_INBOX.op.{by}") as peer:
        payload = msgspec.json.encode({"command": command, "ids": ids, **fields})
        reply = peer.ask(f"safety.v1.review.{by}", payload).fields
    result: Reply = reply["results"][0]
    return result


def waiting(daemon: RunningDaemon) -> list[Reply]:
    """Return the pending requests."""
    own = daemon.data_dir / "keys" / "operator.nk"
    with Peer(daemon.endpoint.bus, own, "_INBOX.op.local") as peer:
        reply = peer.ask("safety.v1.query.local", b'{"command":"pending"}').fields
    rows: list[Reply] = reply["requests"]
    return rows
