"""The subjects of the bus. The last token is the sender's name."""

from typing import Final

import msgspec

AGENT_VERBS: Final = ("propose", "permission", "claim", "telemetry")
OPERATOR_VERBS: Final = ("review", "control", "query")
OBSERVER_VERBS: Final = ("query",)
RELAY_VERBS: Final = ("link",)
STREAM: Final = "SAFETY_JOURNAL"


class Subjects(msgspec.Struct, frozen=True):
    """All subjects, with their prefix."""

    prefix: str = "safety.v1"

    def of(self, *tokens: str) -> str:
        return ".".join((self.prefix, *tokens))

    def keyless(self, *tokens: str) -> str:
        """Return the subject under which the daemon sees messages of anonymous agents."""
        return self.of("open", *tokens)

    @property
    def journal(self) -> str:
        return self.of("journal", "0")

    def internal(self, what: str) -> str:
        """Return a subject on which daemons talk to each other."""
        return self.of("internal", what)

    @property
    def keys(self) -> str:
        """Return the subject on which a daemon says that it changed the key bucket."""
        return self.of("internal", "keys")

    def canary(self, instance: str) -> str:
        return self.of("canary", instance)
