"""What operators can see of the other daemons on the bus, and the handover to one of them."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from safetyd.operators.contract.cluster_contract import (
    ClusterAnswer,
    ClusterSummary,
    HandoverDone,
)
from safetyd.operators.replies import CommandRefused
from safetyd.operators.views.cluster_view import ClusterFacts, alone, cluster, summary


class ClusterAccess(NamedTuple):
    """The other daemons. `hand_over` takes the operator, `is_absent` the name of a daemon."""

    facts: Callable[[], ClusterFacts]
    hand_over: Callable[[str], None]
    is_absent: Callable[[str], bool]

    @property
    def summary(self) -> ClusterSummary:
        return summary(self.facts())

    @property
    def refusal(self) -> str:
        """Return why this daemon carries out no command, or an empty string."""
        found = self.summary
        if found.role == "writer":
            return ""
        if not found.deciding:
            return "this daemon is a standby, and no daemon decides now. Try again in a few seconds"
        place = found.writer_web or f"the control room on {found.writer_machine}"
        return (
            f"this daemon is a standby, and {found.writer} decides. Use {place}, or a terminal: "
            "commands reach the right daemon from every machine"
        )


def is_gone(access: ClusterAccess | None, daemon: str) -> bool:
    """Return whether there are several daemons, and this one is certainly not among them."""
    return access is not None and bool(daemon) and access.is_absent(daemon)


def show(access: ClusterAccess | None, at: datetime) -> ClusterAnswer:
    """Return all daemons. Without `access`, there is only one."""
    return alone(at) if access is None else cluster(access.facts())


def hand_over(access: ClusterAccess | None, by: str, *, force: bool) -> HandoverDone:
    """Let a standby take over. Refuse it if there is none, unless `force` is given."""
    if access is None:
        raise CommandRefused(
            "embedded",
            "there is only one daemon, because its bus is embedded. See `safetyd docs cluster`",
        )
    facts = access.facts()
    if not facts.standbys and not force:
        raise CommandRefused(
            "no_standby",
            f"no standby can take over from {facts.here.name}. `safetyd cluster` shows why. With "
            "--force, nothing is allowed until a daemon takes over",
        )
    access.hand_over(by)
    return HandoverDone(
        ok=True, writer=facts.here.name, term=facts.term, standbys=tuple(facts.standbys)
    )
