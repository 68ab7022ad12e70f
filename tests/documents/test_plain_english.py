"""Phrases that readers stumbled over do not come back.

This is a reminder and no more: a text without them can still be hard to read. Every text should
name things by their names, with the subject first and an ordinary verb.
"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT

# A pattern, and what to write instead.
PHRASES: Final = {
    r"anew": "again",
    r"asks? about": "asks for approval",
    r"(?:is|are|be|was|were) asked about": "needs approval",
    r"at the most": "at most",
    r"beside": "next to, together with",
    r"but for": "except",
    r"(?:for )?who names none": "if none is named",
    r"goes by": "uses, is called",
    r"in (?:his|her|their|its) stead": "instead",
    r"(?:look|looked|looks) after by hand": "check manually",
    r"lets? (?:it|them|him|her) go on": "release",
    r"mend(?:s|ed|ing)?": "fix",
    r"nor plainly": "and not",
    r"nought": "zero",
    r"of (?:its|their) own": "its own, their own",
    r"put right": "fix",
    r"set aside": "reserved",
    r"stands (?:at|in|on|there|here|below|above|first|last|twice)": "is",
    r"takes? note": "records",
    r"told of": "notified about",
    r"untold": "undelivered",
    r"what waits": "pending requests, waiting messages",
    r"who is told": "recipients",
    r"whose ever": "anyone's",
    r"(?:is|are|was|were|be) told (?:no|what|why|that|how|who|when)": "receives, is notified",
}
# Older checkpoints hold this text of an alert, and must replay to the same state.
PERSISTED: Final = "They wait. Once it is mended"

DOCUMENTS: Final = sorted(
    path
    for kind in ("*.md", "docs/*.md", "config/**/*.toml", "config/*.yml", "config/grafana/*.json")
    for path in ROOT.glob(kind)
    if path.name != "CHANGELOG.md"  # it says what was
)
CODE: Final = sorted(
    path
    for kind in ("safetyd/**/*.py", "docs/*.py", "safetyd/**/*.html", "safetyd/**/*.txt")
    for path in ROOT.glob(kind)
)
_NOT_PROSE: Final = re.compile(
    r"^```.*?^```$|^<!-- [^>]*written by .*?^<!-- end -->$|`[^`]+`", re.DOTALL | re.MULTILINE
)


@cache
def texts(path: Path) -> tuple[str, ...]:
    """Return the strings and docstrings of a module, or the prose of another file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return (_NOT_PROSE.sub("", source),)
    constants = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return tuple(node.value for node in constants if isinstance(node.value, str))


def found(pattern: str, paths: list[Path]) -> list[str]:
    """Return the places of a phrase, with the words around it."""
    phrase = re.compile(rf"\b{pattern}\b", re.IGNORECASE)
    return [
        f"{path.relative_to(ROOT)}: {' '.join(text[max(0, match.start() - 40) :][:90].split())}"
        for path in paths
        for text in texts(path)
        for match in phrase.finditer(text)
    ]


@pytest.mark.parametrize(("pattern", "instead"), PHRASES.items(), ids=PHRASES)
def test_documents_and_configurations_do_without(pattern: str, instead: str) -> None:
    assert found(pattern, DOCUMENTS) == [], f"write: {instead}"


@pytest.mark.parametrize(("pattern", "instead"), PHRASES.items(), ids=PHRASES)
def test_strings_and_docstrings_do_without(pattern: str, instead: str) -> None:
    places = [place for place in found(pattern, CODE) if PERSISTED not in place]
    assert places == [], f"write: {instead}"


def test_a_phrase_is_found_in_strings_and_in_prose(tmp_path: Path) -> None:
    module, document = tmp_path / "a.py", tmp_path / "a.md"
    module.write_text('"""Read it anew."""\nanew = f"{1} Mended."  # anew\n')
    document.write_text("Mend it.\n\n```\nanew\n```\n")

    assert [text for text in texts(module) if re.search(r"\banew|Mended", text)] == [
        "Read it anew.",
        " Mended.",
    ]
    assert "anew" not in texts(document)[0]
