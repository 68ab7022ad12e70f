"""Events of several daemons on one bus: which of them writes the journal, and which stand by."""

from safetyd.core.events.event import Event


class WriterChanged(Event, kw_only=True, tag="writer_changed"):
    """A daemon has become the writer: it alone decides and appends to the journal.

    Only one daemon's append succeeds, so this event settles who writes. It causes no other events.
    """

    term: int  # One more than in the event before; it tells the writers apart.
    daemon: str  # The name of the daemon.
    version: str  # The version of the daemon.


class TookOver(Event, kw_only=True, tag="took_over"):
    """A daemon writes the journal now and answers agents."""

    term: int  # The term of the new writer.
    daemon: str  # The name of the new writer.
    before: str = ""  # The name of the writer before it; empty for the first writer.
    planned: bool = False  # The writer before it had released the journal.


class WriterReleased(Event, kw_only=True, tag="writer_released"):
    """The writer has stopped writing, so that a standby can take over immediately."""

    term: int  # The term of the writer.
    daemon: str  # The name of the writer.
    by: str = ""  # The operator, or the signal that ended the daemon.


class TakeoversRepeated(Event, kw_only=True, tag="takeovers_repeated"):
    """Standbys took over several times within an hour without a handover."""

    count: int  # How many takeovers there were.


class StandbysChanged(Event, kw_only=True, omit_defaults=False, tag="standbys_changed"):
    """A standby has joined or is gone."""

    standbys: tuple[str, ...]  # The names of all standbys.
    gone: tuple[str, ...] = ()  # The names of standbys that do not answer any more.
