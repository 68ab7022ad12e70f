"""What a daemon can do besides deciding: the interface of an extra, and all extras together.

An extra never keeps a daemon from starting or deciding. If it lacks a program or a package that the
configuration wants, the log, `status` and the health checks say so, with what to install.
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
    """What a daemon gives to its extras."""

    of: Resources
    flush: Callable[[], None]  # lets answers leave that were held
    save_checkpoint: Callable[[], Awaitable[Path | None]]
    checkpoint_problem: Callable[[], str]  # why the last was not saved, or nothing


class Extra(ABC):
    """One extra, made with the daemon. It overrides what it needs.

    `known` is from the start; an extra copies what it needs of it.
    """

    commits: CommitsBefore = NO_COMMITS  # holds allowed actions until a commit is made

    @abstractmethod
    def __init__(self, host: ExtraHost, known: Records) -> None: ...

    @property
    def handlers(self) -> Handlers:
        """Return what answers its questions and commands, which `operators/` declares."""
        return {}

    def observe(self, events: Sequence[Event]) -> None:  # noqa: B027 - few need to
        """Take the durable events of a batch, perhaps none. It must not block."""

    async def prepare(self) -> None:  # noqa: B027
        """Do what comes before new rules hold: at the start, and at each reload."""

    async def run(self) -> None:  # noqa: B027
        """Work until the daemon ends; return if there is nothing to do."""

    def extended(self, facts: DaemonFacts) -> DaemonFacts:
        """Return the facts of `status` with those of this extra."""
        return facts

    def metrics(self) -> Iterator[Family]:
        """Yield metrics besides those of the daemon."""
        yield from ()

    def unavailable(self) -> Iterator[UnavailableExtra]:
        """Yield what the configuration wants and cannot have now. It may block."""
        yield from ()


class Extras:
    """All of them."""

    def __init__(self, kinds: Iterable[type[Extra]], host: ExtraHost, known: Records) -> None:
        self._all = [kind(host, known) for kind in kinds]
        self._unavailable: tuple[UnavailableExtra, ...] = ()
        self.handlers: Handlers = {
            call: handler for extra in self._all for call, handler in extra.handlers.items()
        }

    @property
    def commits(self) -> CommitsBefore:
        """Return the one that holds actions, if there is one."""
        holding = (extra.commits for extra in self._all if extra.commits is not NO_COMMITS)
        return next(holding, NO_COMMITS)

    def observe(self, events: Sequence[Event]) -> None:
        for extra in self._all:
            extra.observe(events)

    async def prepare(self) -> None:
        for extra in self._all:
            await extra.prepare()
        await self.look()

    def run(self, tasks: anyio.abc.TaskGroup) -> None:
        for extra in self._all:
            tasks.start_soon(extra.run)

    def extended(self, facts: DaemonFacts) -> DaemonFacts:
        for extra in self._all:
            facts = extra.extended(facts)
        return facts

    def metrics(self) -> Iterator[Family]:
        for extra in self._all:
            yield from extra.metrics()

    @property
    def unavailable(self) -> tuple[UnavailableExtra, ...]:
        """Return what was unavailable at the last look."""
        return self._unavailable

    async def look(self) -> None:
        """Look for what is unavailable now, and log what has changed."""
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
