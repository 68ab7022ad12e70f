"""Stories in TOML: agents that propose, people who answer, and what fails meanwhile."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Annotated, Final, Literal
from zoneinfo import available_timezones

import msgspec
from msgspec import Meta

from safetyd.core.messages.proposal import Proposal, is_token
from safetyd.core.recipients import TellingConfig
from safetyd.core.text.near_names import meant
from safetyd.daemon.config import ConfigError, parse_table
from safetyd.hosts.hook_event import Dialect
from safetyd.rehearsal.story_times import Duration, Span, Start, TimeInStory, wrong_day

Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=100_000)]
AtLeastOne = Annotated[int, Meta(ge=1, le=1000)]


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a story."""


class PersonInStory(Table, frozen=True, kw_only=True):
    """How a recipient of the configuration behaves."""

    name: str
    answers_after: tuple[Duration, Duration] = ("2m", "20m")  # after reading a message
    approves: Share = 0.9  # share of the answers; the others are denials
    ignores: Share = 0.0  # share of the messages about a request that are not answered
    by: Literal["link", "terminal"] = "link"
    terminal: tuple[Span, ...] = ()  # when a terminal is near; empty: always
    asleep: tuple[Span, ...] = ()  # reads nothing; empty: the quiet hours of the configuration
    woken_by: tuple[str, ...] = ()  # channels whose urgent messages wake them
    away: tuple[Span, ...] = ()  # cannot read anything, for example on a plane
    on_duty: tuple[Span, ...] = ()  # empty: as in the rota of the configuration
    reads: tuple[str, ...] = ()  # shared channels that they read


class Work(Table, frozen=True, kw_only=True):
    """One kind of action that an agent proposes, and when."""

    action: Proposal
    at: tuple[TimeInStory, ...] = ()
    every: Duration | None = None
    between: Span | None = None
    burst: AtLeastOne = 1  # how many at each time
    within: Duration = "1m"  # the time that a burst takes
    jitter: Share = 0.4  # by which share an interval is shorter or longer
    timeout: Duration | None = None
    takes: Duration = "5s"  # from the permission to the outcome
    fails: Share = 0.0  # share of actions that fail
    then: Literal["claim", "propose again"] = "claim"  # after an approval
    again: Duration | None = None  # proposes again after a denial, a block or silence
    tries: AtLeastOne = 3


class AgentInStory(Table, frozen=True, kw_only=True):
    """An agent, or several of a kind: `name`-1, `name`-2 and so on."""

    name: str
    count: AtLeastOne = 1
    keyless: bool = False
    # A coding agent, such as claude. All its calls wait for a while; then it does other work, and
    # makes the call again after an approval.
    host: Dialect | Literal[""] = ""
    session: Duration | None = None  # a new session after this time
    does: tuple[Work, ...] = ()


class Incident(Table, frozen=True, kw_only=True):
    """A stop, or a failing channel or dependency."""

    at: TimeInStory
    lasts: Duration = "30m"
    stop: str = ""  # the reason of an emergency stop
    agent: str = ""  # with stop: only this agent
    by: str = "operator"
    channel: str = ""  # refuses every message
    dependency: str = ""  # fails every call


class DayGoals(Table, frozen=True, kw_only=True):
    """The highest values that a day may have. None: no goal."""

    mail_per_day: Count | None = None  # for each person
    mail_worst_hour: Count | None = None
    phone_per_day: Count | None = None  # SMS and push messages together
    phone_worst_hour: Count | None = None
    at_night: dict[str, Count] = {}  # by person
    could_wait: Count | None = None  # messages at night without anything urgent
    off_duty: Count | None = None  # messages at night to a person who is not on duty
    repeats_percent: Annotated[float, Meta(ge=0, le=100)] | None = None
    counted_only: Count | None = None  # shown only as a count
    never_notified: Count | None = None
    after_answer: Count | None = None
    too_late: Count | None = None
    undelivered: Count | None = None
    urgent_p95: Duration | None = None
    normal_p50: Duration | None = None
    normal_p95: Duration | None = None
    burst_messages: Count | None = None
    burst_entries: Count | None = None
    digest_lines: Count | None = None
    requests: Count | None = None


class Story(Table, frozen=True, kw_only=True):
    title: str
    start: Start
    lasts: Duration = "24h"
    timezone: str = "UTC"
    seed: int = 1
    config: str = ""  # the configuration to use, next to the story
    words: dict[str, tuple[str, ...]] = {}  # `{name}` in an action becomes one of them
    people: tuple[PersonInStory, ...] = ()
    agents: tuple[AgentInStory, ...]
    incidents: tuple[Incident, ...] = ()
    goals: DayGoals = DayGoals()

    def chance(self, *of: object) -> Random:
        """Return random numbers for one purpose, which are the same in every rehearsal."""
        return Random(" ".join(map(str, (self.seed, *of))))  # noqa: S311 - no secrets


_SHIPPED: Final = Path(__file__).parent / "stories"


def shipped_stories() -> dict[str, Path]:
    """Return the stories that come with safetyd, by name."""
    found = sorted(_SHIPPED.glob("*.story.toml"))
    return {path.name.removesuffix(".story.toml"): path for path in found}


def find_story(name: str) -> Path:
    """Return a file, or the story that comes with safetyd. Raise `ConfigError` if there is none."""
    shipped, file = shipped_stories(), Path(name)
    if name in shipped:
        return shipped[name]
    if file.suffix or file.exists():
        return file
    raise ConfigError([f"no story is called {name!r}; {meant(name, shipped)}"])


def load_story(path: Path) -> Story:
    """Read a story. Raise `ConfigError` with every mistake in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError([f"{path}: cannot read the file: {exc.strerror}"]) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{path}: not UTF-8: {exc.reason} at byte {exc.start}"]) from exc
    try:
        story = parse_table(text, Story)
    except ConfigError as exc:
        raise ConfigError([f"{path}: {error}" for error in exc.errors]) from exc
    if errors := [f"{path}: {error}" for error in _problems(story)]:
        raise ConfigError(errors)
    return story


def misfits(story: Story, telling: TellingConfig) -> Iterator[str]:
    """Yield each name in a story that the configuration does not know."""
    people = [person.name for person in telling.recipients]
    if not people:
        yield "the configuration notifies nobody: enable a channel under [notifications]"
    for number, person in enumerate(story.people):
        if person.name not in people:
            yield f"people[{number}].name is {person.name!r}; {meant(person.name, people)}"
        for channel in (*person.woken_by, *person.reads):
            if channel not in telling.channels:
                why = meant(channel, telling.channels)
                yield f"people[{number}]: {channel!r} is not a channel; {why}"
    for number, incident in enumerate(story.incidents):
        if incident.channel and incident.channel not in telling.channels:
            why = meant(incident.channel, telling.channels)
            yield f"incidents[{number}].channel is {incident.channel!r}; {why}"
    for name in story.goals.at_night:
        if name not in people:
            yield f"goals.at_night.{name}: {name!r} is not a recipient; {meant(name, people)}"


def _problems(story: Story) -> Iterator[str]:
    if story.timezone not in available_timezones():
        yield f"timezone is {story.timezone!r}; it must be an IANA name such as Europe/Berlin"
    for key, time in _times(story):
        if day := wrong_day(time):
            yield f"{key} is {time!r}; {day} is not a weekday such as Mon"
    for number, agent in enumerate(story.agents):
        if not is_token(agent.name):
            may = "it may have only letters, digits, - and _"
            yield f"agents[{number}].name is {agent.name!r}; {may}"
        for at, work in enumerate(agent.does):
            if bool(work.at) == bool(work.every):
                yield f"agents[{number}].does[{at}] needs either `at` or `every`"
    for number, incident in enumerate(story.incidents):
        given = [incident.stop, incident.channel, incident.dependency]
        if sum(map(bool, given)) != 1:
            yield f"incidents[{number}] needs one of `stop`, `channel` and `dependency`"


def _times(story: Story) -> Iterator[tuple[str, str]]:
    for number, person in enumerate(story.people):
        for key in ("terminal", "asleep", "away", "on_duty"):
            yield from ((f"people[{number}].{key}", span) for span in getattr(person, key))
    for number, agent in enumerate(story.agents):
        for at, work in enumerate(agent.does):
            yield from ((f"agents[{number}].does[{at}].at", time) for time in work.at)
            yield f"agents[{number}].does[{at}].between", work.between or ""
    yield from ((f"incidents[{n}].at", each.at) for n, each in enumerate(story.incidents))
