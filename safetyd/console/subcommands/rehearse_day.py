"""`safetyd notify rehearse`: play a story, and show its messages."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from safetyd.console.daemon_config import read_config
from safetyd.console.failure import BLOCKED, Failure
from safetyd.console.help_page import command
from safetyd.console.options import config_option, data_dir_option, json_option
from safetyd.console.terminal_text import columns, document
from safetyd.host import own_config, system_zone


@command()
@click.argument("story", required=False, help="A file, or a story that comes with safetyd.")
@config_option
@click.option("--table", "only_table", is_flag=True, help="Leave out the timeline.")
@data_dir_option
@json_option
def rehearse(
    story: str | None,
    config_path: Path | None,
    directory: Path,
    *,
    only_table: bool,
    as_json: bool,
) -> int:
    """Play a day on virtual time and show which messages people would get.

    A story says what agents propose, when people answer, and what fails. It is played through a
    configuration: its rules, recipients, quiet hours, channels and templates. Nothing is sent, and
    no daemon is needed. Without STORY, the stories that come with safetyd are listed. Each has its
    own configuration. With --config, your recipients take the parts of its people. The exit code is
    1 if the day misses a goal of the story.

    For example:
      safetyd notify rehearse
      safetyd notify rehearse coding-team --table
      safetyd notify rehearse coding-team --config ~/safetyd.toml
      safetyd notify rehearse my-day.story.toml
    """
    # Importing the daemon's parts takes a second.
    from safetyd.console.render.day_page import story_list  # noqa: PLC0415
    from safetyd.daemon.config import ConfigError  # noqa: PLC0415
    from safetyd.rehearsal.story_file import load_story, shipped_stories  # noqa: PLC0415

    try:
        if story is not None:
            return _play(story, config_path, directory, only_table=only_table, as_json=as_json)
        shipped = {name: load_story(path) for name, path in shipped_stories().items()}
    except ConfigError as exc:
        raise Failure(str(exc), "story", exc.errors) from exc
    titles = {name: told.title for name, told in shipped.items()}
    click.echo(document({"ok": True, "stories": titles}) if as_json else story_list(titles))
    return 0


def _play(
    name: str, config_path: Path | None, directory: Path, *, only_table: bool, as_json: bool
) -> int:
    from safetyd.console.render.day_page import day_page  # noqa: PLC0415 - see above
    from safetyd.notify.address_book import telling  # noqa: PLC0415
    from safetyd.rehearsal.day_facts import DayFacts  # noqa: PLC0415
    from safetyd.rehearsal.day_measures import measures  # noqa: PLC0415
    from safetyd.rehearsal.day_rehearsal import rehearse as play  # noqa: PLC0415
    from safetyd.rehearsal.day_timeline import timeline  # noqa: PLC0415
    from safetyd.rehearsal.story_casting import Cast, cast  # noqa: PLC0415
    from safetyd.rehearsal.story_file import find_story, load_story, shipped_stories  # noqa: PLC0415

    file = find_story(name)
    told = load_story(file)
    config_file = config_path or (
        file.parent / told.config if told.config else own_config(directory)
    )
    config = read_config(config_file)
    foreign = name in shipped_stories() and config_path is not None
    parts = cast(told, telling(config.tables, zone=system_zone())) if foreign else Cast(told, {})
    with _only_errors():
        record = play(parts.story, config, config_file, directory)
    facts = DayFacts(record)
    table = measures(facts)
    rows = () if only_table else timeline(facts)
    missed = any(measure.missed for measure in table)
    if as_json:
        found = {"ok": not missed, "proposals": record.proposals, "parts": parts.parts}
        click.echo(document({**found, "measures": table, "timeline": rows}))
    else:
        click.echo(day_page(record, parts.parts, table, rows, columns()))
    return BLOCKED if missed else 0


@contextmanager
def _only_errors() -> Iterator[None]:
    """Log no warnings: channels fail in stories."""
    log = logging.getLogger("safetyd")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
