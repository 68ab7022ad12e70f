"""Several daemons on one bus, the handover between them, and the nodes of the bus."""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.bus.bus_nodes import BusNode
from safetyd.bus.stream_replicas import StreamReplicas
from safetyd.operators.contract.question import Command, Question
from safetyd.operators.replies import Done

ClusterRole = Literal["writer", "standby"]
ClusterHealth = Literal["good", "warn", "bad"]


class DaemonState(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon as it describes itself to the others."""

    name: str
    role: ClusterRole
    version: str
    machine: str  # The host name.
    web: str  # The address of its control room.
    term: int  # The newest term in its journal.
    seq: int  # The last event that it has.
    stream_seq: int  # The last batch that it has.
    lag: int = 0  # How many events it is behind the writer.
    problem: str = ""  # Why it cannot decide or take over, or empty.
    projects: tuple[str, ...] = ()  # Projects whose folders it can reach.


class ClusterDaemon(DaemonState, frozen=True, kw_only=True):
    """A daemon, as the one that answers last heard of it."""

    heard_s: float  # How long ago, in seconds.


class ClusterProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, and what to do about it."""

    state: ClusterHealth
    says: str
    fix: str


class ClusterAnswer(Done, frozen=True, kw_only=True):
    """The daemons on the bus. `says` is the state in one sentence."""

    at: datetime
    embedded: bool  # There is one daemon, with its own bus.
    answered_by: str  # The name of the daemon that answers; empty if it is the only one.
    state: ClusterHealth
    says: str
    fix: str  # The command to type, or empty.
    problems: tuple[ClusterProblem, ...]  # The worst first.
    writer: str  # The daemon that decides, or decided last.
    deciding: bool  # The writer was heard within the last seconds.
    since: datetime | None  # When it became the writer.
    term: int
    daemons: tuple[ClusterDaemon, ...]  # The writer first.
    streams: tuple[StreamReplicas, ...]  # Empty if the bus did not list them.
    takeovers: int  # Unplanned takeovers in the last hour.


class ClusterQuestion(Question[ClusterAnswer], frozen=True, tag="cluster"):
    """Show which daemon decides and which can take over."""

    paths = ("/cluster",)
    always = True


class HandoverDone(Done, frozen=True, kw_only=True):
    """The writer stops deciding, and one of the standbys takes over."""

    writer: str  # The daemon that hands over.
    term: int  # Its term. The next writer has a higher one.
    standbys: tuple[str, ...]  # The daemons that can take over.


class HandoverCommand(Command[HandoverDone], frozen=True, tag="handover"):
    """Let a standby take over from the daemon that decides.

    This is refused if no standby can take over, unless `force` is given. Then the same daemon
    decides again after two seconds.
    """

    force: bool = False


class ClusterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a daemon among several, for `status` and the control room."""

    name: str
    role: ClusterRole
    writer: str  # The daemon that decides, or decided last.
    deciding: bool  # The writer was heard within the last seconds.
    writer_web: str  # Where its control room is, empty if it cannot be reached from here.
    writer_machine: str
    term: int
    standbys: tuple[str, ...]  # The daemons that can take over.


class ReplicasAnswer(Done, frozen=True, kw_only=True):
    """Both lists are sorted by name, and empty if the daemon runs its own server."""

    nodes: tuple[BusNode, ...]  # The servers that answer.
    streams: tuple[StreamReplicas, ...]


class ReplicasQuestion(Question[ReplicasAnswer], frozen=True, tag="replicas"):
    """Show which nodes of an external bus store the journal and the other streams.

    The answer is sent even while nothing can be written.
    """
