"""Makes the daemon a NATS micro service, so that standard tools find it."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from safetyd.bus.publisher import Publisher
from safetyd.bus.subjects import AGENT_VERBS, Subjects

NAME: Final = "safetyd"


class Micro:
    """Answers $SRV.PING, INFO and STATS."""

    def __init__(
        self,
        publisher: Publisher,
        subjects: Subjects,
        *,
        version: str,
        boot_id: str,
        started: datetime,
        decisions: Callable[[], int],
    ) -> None:
        self._publisher = publisher
        self._subjects = subjects
        self._started = started
        self._decisions = decisions
        self._self = {"name": NAME, "id": boot_id, "version": version, "metadata": {}}

    def answer(self, subject: bytes, reply: bytes, _payload: bytes) -> None:
        verb = subject.split(b".")[1].decode()
        self._publisher.answer(
            reply,
            {"type": f"io.nats.micro.v1.{verb.lower()}_response", **self._self, **self._more(verb)},
        )

    def _more(self, verb: str) -> dict[str, object]:
        if verb == "INFO":
            return {
                "description": "Decides which of an agent's proposed actions may run.",
                "endpoints": [
                    {"name": name, "subject": self._subjects.of(name, "*"), "queue_group": ""}
                    for name in AGENT_VERBS
                ],
            }
        if verb == "STATS":
            endpoint = {
                "name": "propose",
                "subject": self._subjects.of("propose", "*"),
                "num_requests": self._decisions(),
            }
            return {"started": self._started, "endpoints": [endpoint]}
        return {}
