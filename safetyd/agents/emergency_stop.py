"""The emergency stop. It sets the stop flag, then publishes the stop, then journals it.

The flag is outside the engine and is set immediately. It can only forbid actions. Intake and
replies check it, so that a stop takes effect even if the journal cannot be written. Recorded
decisions follow the stop guard of the engine.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import anyio
import msgspec
from msgspec import Meta

from safetyd.agents.stop_reserve import StopReserve
from safetyd.bus.publisher import Publisher
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.core.guards.stop import ENVIRONMENT, Stop, as_stop, no_reason
from safetyd.journal.mailbox import EventEnvelope, Mailbox

LOOK_S: Final = 0.1
SWITCHES: Final = ("SAFETYD_ENABLED", "AI_COMPANY_ENABLED")
_OFF: Final = frozenset({"false", "0", "no", "off"})
_READ_BYTES: Final = 4096
Given = Annotated[str, Meta(min_length=1)]

_NONE: Final = {
    "active": False,
    "epoch": 0,
    "reason": "",
    "by": "",
    "since": None,
    "agent": None,
}


class StopFlag:
    """The stops in force, by source and agent."""

    def __init__(self) -> None:
        self._stops: dict[tuple[str | None, str], Stop] = {}
        self.epoch = 0
        self.unwritten = 0  # stops that are not in the journal yet

    @property
    def stops(self) -> tuple[Stop, ...]:
        return tuple(self._stops.values())

    def holds(self, agent: str) -> Stop | None:
        """Return the stop that applies to this agent, if any."""
        if not self._stops:
            return None
        return next((s for s in self._stops.values() if s.agent in (None, agent)), None)

    def next_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    def set(self, stop: Stop) -> None:
        self._stops[stop.agent, stop.source] = stop
        self.epoch = max(self.epoch, stop.epoch)

    def find(self, source: str, agent: str | None = None) -> Stop | None:
        return self._stops.get((agent, source))

    def has(self, source: str, agent: str | None = None) -> bool:
        return (agent, source) in self._stops

    def clear(self, sources: Iterable[str], epoch: int, agent: str | None = None) -> None:
        """Remove the stops of these sources that are older than `epoch`."""
        for source in sources:
            stop = self._stops.get((agent, source))
            if stop is not None and stop.epoch < epoch:
                del self._stops[agent, source]


class StopConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    files: tuple[Given, ...] = ("EMERGENCY_STOP",)
    commands: tuple[Given, ...] = ()


class EmergencyStop:
    """Stops and resumes agents. All stops and resumes go through this class.

    Without a `reserve`, a stop survives a restart only if the journal could be written. `daemon` is
    the name of this daemon if there are several: each has its own stop files.
    """

    def __init__(  # noqa: PLR0913 - where stops come from and go to
        self,
        stop_flag: StopFlag,
        mailbox: Mailbox,
        publisher: Publisher,
        subjects: Subjects,
        clock: Clock,
        *,
        reserve: StopReserve | None = None,
        daemon: str = "",
    ) -> None:
        self.stop_flag = stop_flag
        self._mailbox = mailbox
        self._publisher = publisher
        self._subject = subjects.of("state", "stop")
        self._clock = clock
        self._reserve = reserve
        self._here = f" on {daemon}" if daemon else ""  # in the source of a stop file
        self._environment = f"{ENVIRONMENT}:{daemon}" if daemon else ENVIRONMENT
        self._leaving: set[int] = set()  # epochs of file stops that are being resumed

    def stop(  # noqa: PLR0913 - the facts of a stop, and who waits for it
        self,
        source: str,
        by: str,
        reason: str,
        agent: str | None = None,
        written: Callable[[], None] = lambda: None,
        *,
        via: str = "",
        recorded: Callable[[], None] = lambda: None,
    ) -> int:
        """Stop immediately, publish the stop, then record it. Return the stop's epoch.

        `written` is called when the stop would survive a restart: when the reserve file has it, and
        again when the journal has it. `recorded` is called only when the journal has it.
        """
        epoch = self.stop_flag.next_epoch()
        since = self._clock.now().at
        stop = Stop(source=source, by=by, reason=reason, since=since, agent=agent, epoch=epoch)
        self.stop_flag.set(stop)
        self.stop_flag.unwritten += 1
        self.tell()
        if self._reserve is not None and not _lasts(source):
            self._reserve.add(stop, written)

        def made(_state: EngineState, moment: Moment) -> Stopped:
            return Stopped(
                at=moment.at,
                t=moment.t,
                source=source,
                by=by,
                reason=reason,
                agent=agent,
                epoch=epoch,
                via=via,
            )

        def told() -> None:
            self.stop_flag.unwritten -= 1
            if self._reserve is not None:
                self._reserve.drop(epoch)
            written()
            recorded()

        self._mailbox.put_first(EventEnvelope(made, told))
        return epoch

    @property
    def is_shared(self) -> bool:
        """Return whether another daemon may take over, which cannot read this one's reserve."""
        return bool(self._here)

    def resume(
        self,
        sources: Iterable[str],
        by: str,
        reason: str,
        agent: str | None = None,
        written: Callable[[], None] = lambda: None,
        *,
        via: str = "",
    ) -> None:
        """Record the resume, and only then clear the stops."""
        cleared = tuple(sources)
        epoch = self.stop_flag.next_epoch()

        def made(_state: EngineState, moment: Moment) -> Resumed:
            return Resumed(
                at=moment.at,
                t=moment.t,
                sources=cleared,
                by=by,
                reason=reason,
                agent=agent,
                epoch=epoch,
                via=via,
                urgent=True,
            )

        def told() -> None:
            self.stop_flag.clear(cleared, epoch, agent)
            if agent is not None and not any(stop.agent == agent for stop in self.stop_flag.stops):
                self._publisher.tell(self._subject, {**_NONE, "epoch": epoch, "agent": agent})
            self.tell()
            written()

        self._mailbox.put(EventEnvelope(made, told))

    def keep_only(
        self, agent: str, sources: Sequence[str], by: str, reason: str, *, via: str = ""
    ) -> None:
        """Keep one agent stopped, and clear the stops of other single agents.

        Only stops with one of these `sources` are cleared. The agent's own stop has the first of
        them. Stops that apply to all agents are not changed.
        """
        if not self.stop_flag.has(sources[0], agent):
            self.stop(sources[0], by, reason or "all other agents were resumed", agent, via=via)
        for stop in self.stop_flag.stops:
            if stop.agent not in {None, agent} and stop.source in sources:
                self.resume((stop.source,), by, reason, stop.agent, via=via)

    def follow(self, events: Sequence[Event]) -> None:
        """Apply stops and resumes of the engine, for example after an anomaly, or of the writer."""
        for event in events:
            if type(event) is Stopped and not self.stop_flag.has(event.source, event.agent):
                self.stop_flag.set(as_stop(event))
                self.tell()
            elif type(event) is Resumed:
                self.stop_flag.clear(event.sources, event.epoch, event.agent)

    def tell(self) -> None:
        """Publish the stops in force."""
        stops = self.stop_flag.stops
        if not any(stop.agent is None for stop in stops):
            self._publisher.tell(self._subject, {**_NONE, "epoch": self.stop_flag.epoch})
        for stop in stops:
            self._publisher.tell(
                self._subject,
                {
                    "active": True,
                    "epoch": stop.epoch,
                    "reason": stop.reason,
                    "by": stop.by,
                    "since": stop.since,
                    "agent": stop.agent,
                },
            )

    async def watch(self, files: Iterable[Path]) -> None:
        """Check for stop files forever."""
        paths = tuple(files)
        while True:
            self.look(paths)
            await anyio.sleep(LOOK_S)

    def look(self, paths: Iterable[Path]) -> None:
        """Stop if a stop file exists, and resume when it is gone."""
        for path in paths:
            source = f"file:{path}{self._here}"
            stop = self.stop_flag.find(source)
            if stop is not None and stop.epoch in self._leaving:
                stop = None
            there = _there(path)
            if there and stop is None:
                by, reason = _signed(path)
                self.stop(source, by, reason)
            elif stop is not None and not there and not self.stop_flag.unwritten:
                self._leave(source, stop.epoch)

    def _leave(self, source: str, epoch: int) -> None:
        """Clear the stop of a removed stop file. Do it only once, even if recording it is slow."""
        self._leaving.add(epoch)
        why = "the stop file was removed"
        self.resume((source,), "file", why, written=lambda: self._leaving.discard(epoch))

    def take_over(self, state: EngineState, paths: Iterable[Path]) -> None:
        """At the start, apply stops from the journal, the reserve, files and the environment."""
        self.stop_flag.epoch = max(self.stop_flag.epoch, state.stop.epoch)
        for stop in state.stop.stops:
            self.stop_flag.set(stop)
        for stop in self._reserve.found() if self._reserve is not None else ():
            # Otherwise it is in the journal. Epochs of several daemons cannot be compared.
            if self._here or stop.epoch > state.stop.epoch:
                self.stop(stop.source, stop.by, stop.reason, stop.agent)
        self.look(dict.fromkeys((*paths, *self._stop_files(state.stop.stops))))
        off, source = switched_off(), self._environment
        if off and not self.stop_flag.has(source):
            self.stop(source, "environment", off)
        elif not off and self.stop_flag.has(source):
            self.resume((source,), "environment", "no longer switched off")

    def _stop_files(self, stops: Iterable[Stop]) -> Iterator[Path]:
        """Yield the files of this daemon's stops, even if they are no longer configured."""
        for stop in stops:
            kind, _, path = stop.source.partition(":")
            if kind == "file" and path.endswith(self._here):
                yield Path(path.removesuffix(self._here))


def _lasts(source: str) -> bool:
    """Return True if the source of the stop survives a restart by itself."""
    return source.startswith((ENVIRONMENT, "file:"))


def switched_off() -> str:
    """Return the variable that switches safetyd off, as NAME=value, or an empty string."""
    for name in SWITCHES:
        value = os.environ.get(name, "")
        if value.strip().lower() in _OFF:
            return f"{name}={value}"
    return ""


def _there(path: Path) -> bool:
    """Return True if the path exists, or if that cannot be checked."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _signed(path: Path) -> tuple[str, str]:
    """Return the author and the reason of a stop file, or defaults."""
    said = {}
    for line in _text(path).splitlines():
        key, _, value = line.partition(":")
        said[key.strip().lower()] = value.strip()
    return said.get("stopped by") or "file", said.get("reason") or no_reason(str(path))


def _text(path: Path) -> str:
    """Return the text of a regular file, else an empty string: opening a pipe would block."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return ""
        with path.open("rb") as file:
            return file.read(_READ_BYTES).decode(errors="replace")
    except OSError:
        return ""
