"""Plays a story: connects the engine, the notifier and the people of the story on virtual time."""

import random
from datetime import datetime
from functools import partial
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Final

import anyio

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.core.events.rota_events import DatedShift, RotaRead
from safetyd.core.rota import Rota, RotaPolicy
from safetyd.daemon.config import Config, ConfigError
from safetyd.daemon.rota_source import calendar_request
from safetyd.daemon.settings import Settings
from safetyd.extras.rota.calendar_reader import read_calendar
from safetyd.extras.rota.calendar_shifts import UnusableCalendar
from safetyd.journal.audit import Audit
from safetyd.journal.checkpoints import Checkpoints
from safetyd.journal.commit_loop import CommitLoop
from safetyd.journal.journals import MemoryJournal
from safetyd.journal.mailbox import EventEnvelope, Mailbox
from safetyd.journal.recovery import restore
from safetyd.notify.channel_templates import TEMPLATES
from safetyd.notify.notifier import Notifier
from safetyd.rehearsal.day_record import DayRecord
from safetyd.rehearsal.rehearsed_agents import AgentOffice
from safetyd.rehearsal.rehearsed_channels import RehearsedChannels
from safetyd.rehearsal.rehearsed_people import People
from safetyd.rehearsal.story_file import Incident, Story, misfits
from safetyd.rehearsal.story_times import StoryTimes, Window, seconds
from safetyd.rehearsal.virtual_time import VirtualClock, run_on_virtual_time

TICK_S: Final = 2.0  # a daemon ticks every second, which would take half of the time


def rehearse(story: Story, config: Config, path: Path | None, data_dir: Path | None) -> DayRecord:
    """Play a story with a configuration, and return what happened.

    `path` is the file of the configuration. Templates in `data_dir` are used. Raise `ConfigError`
    if the story names something that the configuration does not have.
    """
    with TemporaryDirectory() as folder:
        if data_dir is not None and (data_dir / TEMPLATES).is_dir():
            copytree(data_dir / TEMPLATES, Path(folder) / TEMPLATES)
        settings = Settings(config, path, Path(folder))
        if errors := list(misfits(story, settings.policy.telling)):
            raise ConfigError(errors)
        times = StoryTimes(story.start, story.lasts, story.timezone)
        shifts = _calendar_shifts(config, data_dir, times)
        rota = settings.policy.rota or RotaPolicy()
        record = DayRecord(story, times, settings.policy.telling, Rota(rota, shifts), rota.wake_for)
        random.seed(story.seed)  # for the jitter of retries
        run_on_virtual_time(partial(_play, record, settings, shifts))
    return record


def _calendar_shifts(
    config: Config, data_dir: Path | None, times: StoryTimes
) -> tuple[DatedShift, ...]:
    """Return the shifts of the rota's calendar around the story."""
    request = calendar_request(config, data_dir or Path(), times.start)
    if request is None:
        return ()
    try:
        return read_calendar(request).shifts
    except UnusableCalendar as exc:
        calendar = config.people.rota.calendar
        raise ConfigError([f"people.rota.calendar: {calendar} cannot be used: {exc}"]) from exc


async def _play(record: DayRecord, settings: Settings, shifts: tuple[DatedShift, ...]) -> None:
    story, times = record.story, record.times
    clock, mailbox, journal = VirtualClock(times.start), Mailbox(), MemoryJournal()
    office = AgentOffice(record, mailbox, clock, settings.prices, _outages(story, times))
    people = People(record, mailbox, clock, office.answers)
    audit = Audit(settings.data_dir / "audit", settings.config.audit.max_bytes)
    audit.open()
    checkpoints = Checkpoints(settings.data_dir / "checkpoints")
    restored = await restore(settings.policy, checkpoints, journal, audit)
    web = settings.config.web
    async with anyio.create_task_group() as tasks:
        channels = RehearsedChannels(clock, _outages(story, times), partial(people.arrived, tasks))
        notifier = Notifier(
            settings,
            mailbox,
            clock,
            data_dir=settings.data_dir,
            public_url=web.public_url,
            base_url=lambda: web.public_url or f"http://127.0.0.1:{web.first_port}",
            waits=office.answers.waits,
            publish=lambda _kind, _content: None,
            opens=channels.open,
        )
        loop = CommitLoop(
            mailbox,
            restored.engine,
            journal,
            audit,
            clock,
            conclude=office.answers.conclude,
            observers=(record.observe, notifier.observe),
        )
        for task in (loop.decide, loop.commit, notifier.run):
            tasks.start_soon(task)
        tasks.start_soon(_tick, mailbox)
        if shifts:
            mailbox.record(partial(_read, settings.config.people.rota.calendar, shifts, times.end))
        for agent in office.agents():
            agent.run(tasks)
        for incident in story.incidents:
            if incident.stop:
                tasks.start_soon(_stop, incident, office, mailbox, times)
        await office.sleep_until(times.end)
        tasks.cancel_scope.cancel()


def _read(calendar: str, shifts: tuple[DatedShift, ...], until: datetime, at: Moment) -> RotaRead:
    return RotaRead(at=at.at, t=at.t, calendar=calendar, shifts=shifts, until=until)


async def _tick(mailbox: Mailbox) -> None:
    """Send ticks to the engine forever."""
    while True:
        await anyio.sleep(TICK_S)
        mailbox.record(lambda moment: Ticked(at=moment.at, t=moment.t))


def _outages(story: Story, times: StoryTimes) -> dict[str, list[Window]]:
    """Return when each channel and dependency is down."""
    found: dict[str, list[Window]] = {}
    for incident in story.incidents:
        window = times.window(incident.at, incident.lasts)
        found.setdefault(incident.channel or incident.dependency, []).append(window)
    return found


async def _stop(
    incident: Incident, office: AgentOffice, mailbox: Mailbox, times: StoryTimes
) -> None:
    """Stop agents, and resume them later."""
    agent = incident.agent or None

    def stopped(state: EngineState, moment: Moment) -> Event:
        return Stopped(
            at=moment.at,
            t=moment.t,
            source="operator",
            by=incident.by,
            reason=incident.stop,
            agent=agent,
            epoch=state.stop.epoch + 1,
        )

    def resumed(state: EngineState, moment: Moment) -> Event:
        return Resumed(
            at=moment.at,
            t=moment.t,
            sources=("operator",),
            by=incident.by,
            agent=agent,
            epoch=state.stop.epoch + 1,
            urgent=True,
        )

    await office.sleep_until(times.at(incident.at))
    mailbox.put(EventEnvelope(stopped))
    await anyio.sleep(seconds(incident.lasts))
    mailbox.put(EventEnvelope(resumed))
