"""`safetyd notify rehearse`: play a story, and show its messages."""

import logging
from pathlib import Path

import click

from safetyd.console.daemon_config import read_config
from safetyd.console.failure import BLOCKED, Failure, WrongUsage
from safetyd.console.help_page import command
from safetyd.console.options import config_option, data_dir_option, json_option
from safetyd.console.terminal_text import document
from safetyd.host import own_config


@command()
@click.argument("story", required=False, type=click.Path(path_type=Path), help="A story, in TOML.")
@click.option("--story", "name", metavar="NAME", help="A story that comes with safetyd.")
@config_option
@click.option("--table", "only_table", is_flag=True, help="Leave out the timeline.")
@data_dir_option
@json_option
def rehearse(
    story: Path | None,
    name: str | None,
    config_path: Path | None,
    directory: Path,
    *,
    only_table: bool,
    as_json: bool,
) -> int:
    """Play a day on virtual time and show which messages people would get.

    A story says what agents propose, when people answer, and what fails. It is played through your
    configuration: the rules, recipients, quiet hours, channels and templates. Nothing is sent, and
    no daemon is needed. A story that comes with safetyd has its configuration next to it, unless
    you give --config. The exit code is 1 if the day misses a goal of the story.

    For example:
      safetyd notify rehearse my-day.toml
      safetyd notify rehearse --story coding-team --table
    """
    # Importing the daemon's parts takes a second.
    from safetyd.console.render.day_page import day_page  # noqa: PLC0415
    from safetyd.daemon.config import ConfigError  # noqa: PLC0415
    from safetyd.rehearsal.day_facts import DayFacts  # noqa: PLC0415
    from safetyd.rehearsal.day_measures import measures  # noqa: PLC0415
    from safetyd.rehearsal.day_rehearsal import rehearse as play  # noqa: PLC0415
    from safetyd.rehearsal.day_timeline import timeline  # noqa: PLC0415
    from safetyd.rehearsal.story_file import load_story  # noqa: PLC0415

    file = _file(story, name)
    try:
        told = load_story(file)
        own = file.parent / told.config if told.config else own_config(directory)
        config_file = config_path or own
        logging.getLogger("safetyd").setLevel(logging.ERROR)  # channels fail in stories
        record = play(told, read_config(config_file), config_file, directory)
    except ConfigError as exc:
        raise Failure(str(exc), "story", exc.errors) from exc
    facts = DayFacts(record)
    table = measures(facts)
    rows = () if only_table else timeline(facts)
    missed = any(measure.missed for measure in table)
    if as_json:
        found = {"ok": not missed, "proposals": record.proposals}
        click.echo(document({**found, "measures": table, "timeline": rows}))
    else:
        click.echo(day_page(told, record.proposals, table, rows))
    return BLOCKED if missed else 0


def _file(story: Path | None, name: str | None) -> Path:
    from safetyd.rehearsal.story_file import shipped_stories  # noqa: PLC0415 - see above

    if (story is None) == (name is None):
        known = ", ".join(sorted(shipped_stories()))
        raise WrongUsage(f"give a file, or --story with one of {known}")
    if story is not None:
        return story
    if name not in shipped_stories():
        known = ", ".join(sorted(shipped_stories()))
        raise WrongUsage(f"unknown story {name!r}. Choose one of {known}")
    return shipped_stories()[name]
