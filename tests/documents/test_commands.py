"""Every `safetyd` command in the documents, configurations and units exists, with its options."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from safetyd.console.completion import TABLE
from tests.checkout import ROOT

KINDS: Final = ("*.md", "docs/*.md", "config/*.toml", "config/*.yml", "systemd/*.service")
DOCUMENTS: Final = sorted(path for kind in KINDS for path in ROOT.glob(kind))
COMMANDS: Final[dict[str, Any]] = json.loads(TABLE.read_text())
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN: Final = re.compile(r"`(safetyd(?:\s+[^`]+)?)`")
_ENDS: Final = {"|", ">", "<<<", "&&", "#", "&>", "||", "--"}


def typed(text: str) -> Iterator[str]:
    """Yield the commands in blocks of code, and in spans within a sentence.

    A block of `text` shows what people read, such as a message that begins with `safetyd:`.
    """
    for language, block in _BLOCK.findall(text):
        if language == "text":
            continue
        yield from re.findall(r"^safetyd .+$", block.replace("\\\n", ""), re.MULTILINE)
    prose = re.sub(r"\n\s*#?\s*", " ", _BLOCK.sub("", text))
    yield from _SPAN.findall(prose)


def mistakes(command: str) -> Iterator[str]:
    """Yield the words of a command that safetyd does not know."""
    node = COMMANDS
    for word in command.split()[1:]:
        if word in _ENDS or word.startswith("$("):
            return
        if word.startswith("--"):
            if word.partition("=")[0] not in {*node.get("options", ()), "--help", "--version"}:
                yield f"{command}: {word}"
        elif word in node.get("commands", ()):
            node = node["commands"][word]
        elif node is COMMANDS:
            yield f"{command}: {word}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_exists(document: Path) -> None:
    if document.name != "CHANGELOG.md":  # it names what is no longer there
        assert [wrong for one in typed(document.read_text()) for wrong in mistakes(one)] == []


def test_a_wrong_command_is_found() -> None:
    text = (
        "`safetyd stopp`, `safetyd list --al`\n\n```sh\nsafetyd agent add x --token\n```\n"
        "\n```text\nsafetyd HIGH: push by nightly\n```\n"
    )

    found = [wrong for one in typed(text) for wrong in mistakes(one)]

    assert found == ["safetyd stopp: stopp", "safetyd list --al: --al"]
