"""Links between documents lead to files and headings that exist."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT

DOCUMENTS: Final = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
_LINK: Final = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
_CODE: Final = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    for path, anchor in _LINK.findall(_CODE.sub("", document.read_text())):
        there = document.parent / path if path else document
        assert there.exists(), path
        assert not anchor or anchor in anchors(there), f"{path}#{anchor}"
