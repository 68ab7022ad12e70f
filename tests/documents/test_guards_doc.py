"""Every example in docs/guards.md is run and says what stands there, and every default is true."""

import os
import re
import subprocess
import sys
import tomllib
from functools import reduce
from operator import getitem
from pathlib import Path

import msgspec
import pytest

from safetyd.core.guards import Chain
from safetyd.daemon.config import Config
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon, environment

TEXT = (ROOT / "docs/guards.md").read_text()
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
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(CONFIG)


def run(daemon: RunningDaemon, example: re.Match[str]) -> subprocess.CompletedProcess[str]:
    shell = ["bash", "-c"] if example["kind"] == "sh" else [sys.executable, "-c"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"SAFETYD_DATA_DIR": str(daemon.data_dir), "PATH": path, "PYTHONPATH": str(ROOT)}
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


def written_output(example: re.Match[str]) -> str:
    """Return the plain block that follows an example with nothing between."""
    following = BLOCK.match(TEXT, example.end() + 2)
    return following["body"] if following and not following["kind"] else ""


def shape(output: str) -> str:
    """Return what was said, without what differs from run to run."""
    return VARIES.sub("~", output)


def section(example: re.Match[str]) -> str:
    *_, last = HEADING.finditer(TEXT, 0, example.start())
    return last[1]


@pytest.mark.parametrize("example", EXAMPLES, ids=section)
def test_an_example_says_what_is_written(daemon: RunningDaemon, example: re.Match[str]) -> None:
    done = run(daemon, example)

    assert shape(done.stdout) == shape(written_output(example))
    assert done.returncode == int(example["code"] or 0)


@pytest.mark.parametrize(("key", "written"), DEFAULT.findall(TEXT))
def test_a_default_is_the_one_in_force(key: str, written: str) -> None:
    is_ = reduce(getitem, key.split("."), DEFAULTS)
    said = tomllib.loads(f"it = {written}")["it"]

    assert is_ == ({**is_, **said} if isinstance(is_, dict) else said)


def test_every_guard_has_a_row_and_a_section_in_the_order_of_the_chain() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\(#\1\)", TEXT, re.MULTILINE)
    sections = re.findall(r"^## (\w+)$", TEXT, re.MULTILINE)

    assert tuple(rows) == Chain._fields
    assert tuple(sections) == (*Chain._fields, "Projects")
