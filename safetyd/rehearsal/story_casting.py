"""Gives the parts of a shipped story to the recipients of the user's own configuration."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from safetyd.core.recipients import ChannelKind, Recipient, TellingConfig
from safetyd.notify.address_book import EVERYONE
from safetyd.rehearsal.story_file import PersonInStory, Story

_WAKING: Final[tuple[ChannelKind, ...]] = ("sms", "chat", "desktop")


class Cast(NamedTuple):
    story: Story
    parts: dict[str, str]  # for each recipient, the person of the story that they behave like


def cast(story: Story, telling: TellingConfig) -> Cast:
    """Return the story with the recipients of a configuration, in the order of their tables.

    If there are more recipients than people in the story, several behave like the same person. An
    outage of a channel that the configuration does not have becomes one of its first channel.
    """
    known = {one.name: one for one in telling.recipients}
    if not known or not story.people or all(person.name in known for person in story.people):
        return Cast(story, {})
    own = [name for name in known if name != EVERYONE] or [EVERYONE]
    parts = {name: story.people[n % len(story.people)] for n, name in enumerate(own)}
    shared = known[EVERYONE].channels if EVERYONE in known else ()
    people = tuple(
        _person(part, known[name], telling, shared if n == 0 else ())
        for n, (name, part) in enumerate(parts.items())
    )
    nights = story.goals.at_night
    goals = replace(
        story.goals,
        at_night={name: nights[part.name] for name, part in parts.items() if part.name in nights},
    )
    first = next(iter(telling.channels), "")
    incidents = tuple(
        replace(each, channel=first)
        if each.channel and each.channel not in telling.channels
        else each
        for each in story.incidents
    )
    told = replace(story, people=people, goals=goals, incidents=incidents)
    return Cast(told, {name: part.name for name, part in parts.items()})


def _person(
    part: PersonInStory, recipient: Recipient, telling: TellingConfig, shared: tuple[str, ...]
) -> PersonInStory:
    """Return a recipient who behaves like a person of the story on their own channels."""
    mine = recipient.channels + shared
    woken = tuple(_waking(mine, telling)) if part.woken_by else ()
    reads = tuple(channel for channel in shared if channel not in recipient.channels)
    return replace(part, name=recipient.name, woken_by=woken, reads=reads, on_duty=())


def _waking(channels: tuple[str, ...], telling: TellingConfig) -> Iterator[str]:
    return (channel for channel in channels if telling.channels[channel] in _WAKING)
