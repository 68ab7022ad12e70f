"""Every example in docs/guards.md prints what the document shows, and every default is true."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from functools import reduce
from operator import getitem
from pathlib import Path

import msgspec
import pytest

from safetyd.core.guards.guard_chain import Chain
from safetyd.daemon.config import Config
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon, environment

DOCUMENT = ROOT / "docs/guards.md"
TEXT = DOCUMENT.read_text()
BLOCK = re.compile(
    r"(?:<!-- exit (?P<code>\d) -->\n)?```(?P<kind>\w*)\n(?P<body>.*?)```", re.DOTALL
)
HEADING = re.compile(r"^##? (.+)", re.MULTILINE)
DEFAULT = re.compile(r"^\| `([\w.]+)` \| `(.+?)` \|", re.MULTILINE)
VARIES = re.compile(
    r"""
    \d{4}-\d\d-\d\d\ \d\d:\d\d:\d\dZ | \d\d:\d\dZ           # times
    | [0-9A-Z]{26} | (?<=sha256:)[0-9a-f]{64} | (?<=event\ )\d+ | (?<=req_)[0-9a-f]{12}
    | \d+(?:\.\d)?(?=\ ?s\b)                                # seconds
    | (?<=jsonl:)\d+ | [0-9a-f]{16}(?=…)                   # a place in the audit files
    | (?<=agent\ )\d+ | (?<=all\ )\d+ | \d+(?=\ of\ \d+\ names)
    """,
    re.VERBOSE,
)

BLOCKS = list(BLOCK.finditer(TEXT))
DEFAULTS = msgspec.json.decode(msgspec.json.encode(Config()))
EXAMPLES = [block for block in BLOCKS if block["kind"] in {"sh", "python"}]
[CONFIG] = (block["body"] for block in BLOCKS if block["kind"] == "toml")


@pytest.fixture(scope="module")
def runs(start_module_daemon: StartDaemon) -> list[subprocess.CompletedProcess[str]]:
    """Run the examples in order; with REWRITE_DOCS=1, put what they print into the document."""
    daemon = start_module_daemon(CONFIG)
    done = [run(daemon, example) for example in EXAMPLES]
    if os.environ.get("REWRITE_DOCS"):
        DOCUMENT.write_text(rewritten([each.stdout for each in done]))
    return done


def run(daemon: RunningDaemon, example: re.Match[str]) -> subprocess.CompletedProcess[str]:
    shell = ["bash", "-c"] if example["kind"] == "sh" else [sys.executable, "-c"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {
        "SAFETYD_DATA_DIR": str(daemon.data_dir),
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
    }
    return subprocess.run(
        [*shell, example["body"]],
        cwd=ROOT,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )


def output_block(example: re.Match[str]) -> re.Match[str] | None:
    """Return the plain block that follows an example with nothing between."""
    following = BLOCK.match(TEXT, example.end() + 2)
    return following if following and not following["kind"] else None


def written_output(example: re.Match[str]) -> str:
    block = output_block(example)
    return block["body"] if block else ""


def rewritten(outputs: Sequence[str]) -> str:
    """Return the document with other outputs, where more differs than times and ids."""
    text = TEXT
    for example, output in reversed(list(zip(EXAMPLES, outputs, strict=True))):
        block = output_block(example)
        if block and shape(output) != shape(block["body"]):
            text = text[: block.start("body")] + output + text[block.end("body") :]
    return text


def shape(output: str) -> str:
    """Return an output without what differs from run to run."""
    return VARIES.sub("~", output)


def section(number: int) -> str:
    *_, last = HEADING.finditer(TEXT, 0, EXAMPLES[number].start())
    return last[1]


@pytest.mark.parametrize("number", range(len(EXAMPLES)), ids=section)
def test_an_example_prints_what_is_written(
    runs: list[subprocess.CompletedProcess[str]], number: int
) -> None:
    example, done = EXAMPLES[number], runs[number]

    assert shape(done.stdout) == shape(written_output(example)), "or run with REWRITE_DOCS=1"
    assert done.returncode == int(example["code"] or 0)


@pytest.mark.parametrize(("key", "written"), DEFAULT.findall(TEXT))
def test_a_documented_default_is_the_real_one(key: str, written: str) -> None:
    is_ = reduce(getitem, key.split("."), DEFAULTS)
    said = tomllib.loads(f"it = {written}")["it"]

    assert is_ == ({**is_, **said} if isinstance(is_, dict) else said)


def test_every_guard_has_a_row_and_a_section_in_the_order_of_the_chain() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(#\1\)", TEXT, re.MULTILINE)
    sections = re.findall(r"^## (\w+)$", TEXT, re.MULTILINE)

    assert tuple(rows) == Chain._fields
    assert [name for name in sections if name in Chain._fields] == list(Chain._fields)
