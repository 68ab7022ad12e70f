"""Several daemons on one bus: who decides, who can take over, and what is wrong."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from safetyd.bus.stream_replicas import StreamReplicas
from safetyd.core.writers import REPEATED
from safetyd.operators.contract.cluster_contract import (
    ClusterAnswer,
    ClusterDaemon,
    ClusterProblem,
    ClusterSummary,
    DaemonState,
)

LAG_EVENTS: Final = 1000  # a standby that is more events behind is reported
MORE: Final = "`safetyd docs cluster`"


class ClusterFacts(NamedTuple):
    """Everything that the answer needs. `peers` are the other daemons."""

    at: datetime
    here: DaemonState
    peers: Sequence[ClusterDaemon]
    writer: str  # that the journal names
    since: datetime | None
    term: int
    takeovers: int
    twin: bool  # another daemon has the same name
    streams: Sequence[StreamReplicas] = ()

    @property
    def daemons(self) -> tuple[ClusterDaemon, ...]:
        """Return all daemons, the writer first."""
        fields = {name: getattr(self.here, name) for name in self.here.__struct_fields__}
        own = ClusterDaemon(**fields, heard_s=0.0)
        newest = self.deciding
        return tuple(sorted((own, *self.peers), key=lambda each: (each.name != newest, each.name)))

    @property
    def deciding(self) -> str:
        """Return the daemon that decides now, or an empty string."""
        writers = [each for each in (self.here, *self.peers) if each.role == "writer"]
        newest = max(writers, key=lambda each: each.term, default=None)
        return newest.name if newest is not None and newest.term >= self.term else ""

    @property
    def standbys(self) -> list[str]:
        """Return the daemons that can take over."""
        return [each.name for each in self.daemons if each.role == "standby" and not each.problem]


def alone(at: datetime) -> ClusterAnswer:
    """Return the answer of a daemon with an embedded bus."""
    return ClusterAnswer(
        ok=True,
        at=at,
        embedded=True,
        answered_by="",
        state="good",
        says="There is one daemon on one machine, with its own bus.",
        fix=f"To run more daemons, which can take over: {MORE}",
        problems=(),
        writer="",
        deciding=True,
        since=None,
        term=0,
        daemons=(),
        streams=(),
        takeovers=0,
    )


def cluster(facts: ClusterFacts) -> ClusterAnswer:
    """Return all daemons, and the worst problem as one sentence."""
    problems = tuple(sorted(_problems(facts), key=lambda each: each.state))  # bad before warn
    can = f"{', '.join(facts.standbys)} can take over"
    well = f"All is well: {facts.deciding} decides, and {can}."
    return ClusterAnswer(
        ok=True,
        at=facts.at,
        embedded=False,
        answered_by=facts.here.name,
        state=problems[0].state if problems else "good",
        says=problems[0].says if problems else well,
        fix=problems[0].fix if problems else "",
        problems=problems,
        writer=facts.deciding or facts.writer,
        deciding=bool(facts.deciding),
        since=facts.since,
        term=facts.term,
        daemons=facts.daemons,
        streams=tuple(facts.streams),
        takeovers=facts.takeovers,
    )


def summary(facts: ClusterFacts) -> ClusterSummary:
    """Return the place of this daemon among the others."""
    name = facts.deciding
    writer = next((each for each in facts.daemons if each.name == name), None)
    return ClusterSummary(
        name=facts.here.name,
        role=facts.here.role,
        writer=name or facts.writer,
        deciding=bool(name),
        writer_web=writer.web if writer and _reaches(facts.here, writer) else "",
        writer_machine=writer.machine if writer else "",
        term=facts.term,
        standbys=tuple(facts.standbys),
    )


def _reaches(here: DaemonState, there: DaemonState) -> bool:
    """Return whether the address of a control room leads there from this machine."""
    loopback = there.web.startswith(("http://127.", "http://localhost", "http://[::1]"))
    return here.machine == there.machine or not loopback


def _problems(facts: ClusterFacts) -> Iterator[ClusterProblem]:
    yield from _writer(facts)
    yield from _standbys(facts)
    if facts.twin:
        yield ClusterProblem(
            state="warn",
            says=f"Two daemons are named {facts.here.name}.",
            fix="Give each daemon its own `name` in [bus] and restart it",
        )
    versions = sorted({each.version for each in facts.daemons})
    if len(versions) > 1:
        yield ClusterProblem(
            state="warn",
            says=f"The daemons have different versions: {', '.join(versions)}.",
            fix="Upgrade the standbys first, then run `safetyd handover` and upgrade the last one",
        )
    for stream in facts.streams:
        yield from _replicas(stream)
    if facts.takeovers >= REPEATED:
        yield ClusterProblem(
            state="warn",
            says=f"There were {facts.takeovers} takeovers in the last hour.",
            fix="Check the network between the machines and their load: `safetyd report`",
        )


def _writer(facts: ClusterFacts) -> Iterator[ClusterProblem]:
    for each in facts.daemons:
        if each.name == facts.deciding and each.problem:
            yield ClusterProblem(
                state="bad",
                says=f"{each.name} is the writer, but nothing is allowed: {each.problem}.",
                fix=f"On {each.machine}, run `safetyd doctor`",
            )
    if facts.deciding:
        return
    if facts.standbys:
        able = ", ".join(facts.standbys)
        fix = f"{able} takes over as soon as the bus accepts a batch. Check the bus: "
    else:
        fix = "Start a daemon on one of the machines. To see why it does not start: "
    yield ClusterProblem(
        state="bad", says="No daemon decides: nothing is allowed.", fix=f"{fix}`safetyd doctor`"
    )


def _standbys(facts: ClusterFacts) -> Iterator[ClusterProblem]:
    for each in facts.daemons:
        if each.role == "standby" and each.problem:
            yield ClusterProblem(
                state="warn",
                says=f"{each.name} cannot take over: {each.problem}.",
                fix=f"On {each.machine}, run `safetyd doctor`",
            )
        elif each.lag > LAG_EVENTS:
            yield ClusterProblem(
                state="warn",
                says=f"{each.name} is {each.lag} events behind.",
                fix=f"Check the load and the network of {each.machine}: `safetyd cluster`",
            )
    if facts.deciding and not facts.standbys:
        yield ClusterProblem(
            state="warn",
            says=f"{facts.deciding} decides, and no standby can take over.",
            fix=f"Start a daemon on another machine: {MORE}",
        )


def _replicas(stream: StreamReplicas) -> Iterator[ClusterProblem]:
    wanted = max(stream.wanted, stream.replicas)
    if not stream.replicas:
        yield ClusterProblem(
            state="bad",
            says=f"No node leads the stream {stream.name}.",
            fix="Start more than half of the nodes of the bus: `safetyd doctor`",
        )
    elif stream.current < wanted:
        yield ClusterProblem(
            state="warn",
            says=f"{stream.current} of {wanted} replicas of {stream.name} are up to date.",
            fix="`safetyd doctor` says which node to check",
        )
