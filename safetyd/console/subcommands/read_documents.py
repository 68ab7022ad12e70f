"""`safetyd docs`: the documents, configurations and systemd units that come with safetyd."""

import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from safetyd.console.failure import Failure
from safetyd.console.help_page import command
from safetyd.console.options import json_option
from safetyd.console.render.layout import indented
from safetyd.console.shipped_files import ShippedFile, find, shipped_files
from safetyd.console.terminal_text import document, plain

# Folders with many files. Each is listed on one line.
FOLDED: Final = {
    "docs/decisions": "Design decisions",
    "docs/schemas": "JSON Schemas of messages and audit files",
}


@command()
@click.argument("name", required=False, help="A file or folder. Default: list everything.")
@click.option("--path", "only_path", is_flag=True, help="Print the path instead of the content.")
@json_option
def docs(name: str | None, *, only_path: bool, as_json: bool) -> None:
    """Print safetyd's documentation and example configurations.

    On a terminal, the file opens in your pager.

    For example:
      safetyd docs
      safetyd docs notifications
      safetyd docs config/production.toml > my.toml
    """
    files = shipped_files()
    found = files if name is None else find(name, files)
    if not found:
        raise _unknown(name or "", files)
    if as_json:
        rows = [{"name": one.name, "title": one.title, "path": str(one.path)} for one in found]
        click.echo(document({"ok": True, "files": rows}))
    elif only_path:
        click.echo("\n".join(str(file.path) for file in found))
    elif name is None:
        click.echo("\n".join(_overview(files)))
    elif len(found) > 1:
        click.echo("\n".join(_listed(found)))
    else:
        _show(found[0])


def _overview(files: Sequence[ShippedFile]) -> Iterator[str]:
    single = [file for file in files if not file.name.startswith(tuple(FOLDED))]
    yield from _listed(single)
    yield ""
    for folder, title in FOLDED.items():
        many = [file for file in files if file.name.startswith(f"{folder}/")]
        yield f"{title}: {len(many)} files; see `safetyd docs {Path(folder).name}`."
    yield "Run `safetyd docs NAME` to read a file; you can omit docs/ and .md."


def _listed(files: Sequence[ShippedFile]) -> Iterator[str]:
    lines = indented((file.name, file.title) for file in files)
    yield from (line.rstrip() for line in lines)


def _show(file: ShippedFile) -> None:
    if sys.stdout.isatty():
        click.echo_via_pager(file.path.read_text(encoding="utf-8"))
    else:
        click.echo(file.path.read_bytes(), nl=False)


def _unknown(name: str, files: Sequence[ShippedFile]) -> Failure:
    if not files:
        return Failure("no documents found: this installation of safetyd is incomplete")
    short = {file.name.removeprefix("docs/").removesuffix(".md"): file.name for file in files}
    near = difflib.get_close_matches(name, (*short, *short.values()), n=1)
    hint = (
        f"Did you mean {short.get(near[0], near[0])}?" if near else "Run `safetyd docs` for a list"
    )
    return Failure(f"no document {plain(name)!r}. {hint}", "not_found")
