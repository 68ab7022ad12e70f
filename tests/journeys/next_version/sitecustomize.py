"""Makes the daemon of a process a later version: it journals an event that this one lacks.

Python imports a module of this name at its start, if its folder is in PYTHONPATH.
"""

from typing import Any

import safetyd
from safetyd.core.catalogue import daemon_entries
from safetyd.core.catalogue.entry import Entry
from safetyd.core.events.event import Event, Moment

safetyd.__version__ = "0.2.0"


class KettleBoiled(Event, kw_only=True, tag="kettle_boiled"):
    where: str


daemon_entries.ENTRIES = (  # type: ignore[misc,assignment] # before the catalogue joins them
    *daemon_entries.ENTRIES,
    Entry(KettleBoiled, says="a kettle boiled in {where}"),
)

from safetyd.daemon import lifecycle  # noqa: E402 - imports the catalogue

write = lifecycle.Daemon._write


async def write_and_boil(daemon: lifecycle.Daemon, of: Any, *more: Any) -> None:
    def boiled(moment: Moment) -> KettleBoiled:
        return KettleBoiled(at=moment.at, t=moment.t, where="the kitchen")

    of.mailbox.record(boiled)
    await write(daemon, of, *more)


lifecycle.Daemon._write = write_and_boil  # type: ignore[assignment,method-assign]
