"""Extras: optional features of a daemon.

An extra never prevents a start or a decision. If a configured extra needs a program or a package
that is missing, the log, `status` and the health checks say what to install.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio.abc
import anyio.to_thread

from safetyd.agents.commits_before import NO_COMMITS, CommitsBefore
from safetyd.core.events.event import Event
from safetyd.core.reporting.records import Records
from safetyd.daemon.resources import Resources
from safetyd.monitoring.metric_families import Family
from safetyd.operators.contract.status_contract import DaemonFacts, UnavailableExtra
from safetyd.operators.handlers import Handlers

log = logging.getLogger("safetyd.extras")


class ExtraHost(NamedTuple):
    """The parts of the daemon that extras can use."""

    of: Resources
    flush: Callable[[], None]  # sends collected replies
    save_checkpoint: Callable[[], Awaitable[Path | None]]
    checkpoint_problem: Callable[[], str]  # why the last checkpoint was not saved, or empty


class Extra(ABC):
    """An optional feature. It overrides the methods that it needs.

    `known` is the state at the start. The state changes later, so an extra copies what it needs.
    """

    commits: CommitsBefore = NO_COMMITS  # delays allowed actions until a commit is made

    @abstractmethod
    def __init__(self, host: ExtraHost, known: Records) -> None: ...

    @property
    def handlers(self) -> Handlers:
        """Return handlers for questions and commands that `operators/` declares."""
        return {}

    def observe(self, events: Sequence[Event]) -> None:  # noqa: B027 - few need to
        """Receive the durable events of a batch, which may be empty. This must not block."""

    async def prepare(self) -> None:  # noqa: B027
        """Prepare for new rules, at the start and at each reload."""

    async def run(self) -> None:  # noqa: B027
        """Run until the daemon stops. Return early if there is nothing to do."""

    async def follow(self) -> None:  # noqa: B027
        """Run while this daemon is a standby, instead of `run`."""

    def extended(self, facts: DaemonFacts) -> DaemonFacts:
        """Add facts of this extra to `status`."""
        return facts

    def metrics(self) -> Iterator[Family]:
        """Yield additional metrics."""
        yield from ()

    def unavailable(self) -> Iterator[UnavailableExtra]:
        """Yield configured features that are unavailable. This may block."""
        yield from ()


class Extras:
    """All extras of a daemon."""

    def __init__(self, kinds: Iterable[type[Extra]], host: ExtraHost, known: Records) -> None:
        self._all = [kind(host, known) for kind in kinds]
        self._unavailable: tuple[UnavailableExtra, ...] = ()
        self.handlers: Handlers = {
            call: handler for extra in self._all for call, handler in extra.handlers.items()
        }

    @property
    def commits(self) -> CommitsBefore:
        """Return the extra that delays actions until files are committed, if any."""
        holding = (extra.commits for extra in self._all if extra.commits is not NO_COMMITS)
        return next(holding, NO_COMMITS)

    def observe(self, events: Sequence[Event]) -> None:
        for extra in self._all:
            extra.observe(events)

    async def prepare(self) -> None:
        for extra in self._all:
            await extra.prepare()
        await self.look()

    def run(self, tasks: anyio.abc.TaskGroup, *, standby: bool) -> None:
        for extra in self._all:
            tasks.start_soon(extra.follow if standby else extra.run)

    def extended(self, facts: DaemonFacts) -> DaemonFacts:
        for extra in self._all:
            facts = extra.extended(facts)
        return facts

    def metrics(self) -> Iterator[Family]:
        for extra in self._all:
            yield from extra.metrics()

    @property
    def unavailable(self) -> tuple[UnavailableExtra, ...]:
        """Return the features that were unavailable at the last check."""
        return self._unavailable

    async def look(self) -> None:
        """Check which features are unavailable, and log changes."""
        found = await anyio.to_thread.run_sync(self._looked)
        for each in found:
            if each not in self._unavailable:
                log.warning("%s is unavailable: %s; %s", each.name, each.why, each.fix)
        names = {each.name for each in found}
        for name in {each.name for each in self._unavailable} - names:
            log.info("%s is available again", name)
        self._unavailable = found

    def _looked(self) -> tuple[UnavailableExtra, ...]:
        return tuple(each for extra in self._all for each in extra.unavailable())
