"""Every command in docs/shell.md is judged as the document says."""

import re

import msgspec
import pytest

from safetyd.console.shell.command_trial import CommandTrial, Place
from safetyd.console.shell.corpus import SAID, Labelled, measure
from safetyd.core.policy import Policy
from safetyd.core.shell.programs import Row
from safetyd.daemon.config import parse
from tests.checkout import ROOT

TEXT = (ROOT / "docs/shell.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)
EXAMPLES = [
    (said, command)
    for said, body in BLOCKS
    if said in SAID.values()
    for command in body.splitlines()
]
[CONFIG] = (body for kind, body in BLOCKS if kind == "toml")
[CORPUS] = (body for kind, body in BLOCKS if kind == "jsonl")


@pytest.fixture(scope="module")
def trial() -> CommandTrial:
    return CommandTrial(Policy(profile="coding"))


@pytest.mark.parametrize(("said", "command"), EXAMPLES)
def test_an_example_gets_the_documented_verdict(
    trial: CommandTrial, said: str, command: str
) -> None:
    assert SAID[trial.decide(command, Place())] == said


def test_the_documented_programs_give_the_labelled_verdicts() -> None:
    policy = msgspec.structs.replace(parse(CONFIG, "shell.md").policy(), profile="coding")
    corpus = [msgspec.json.decode(line, type=Labelled) for line in CORPUS.splitlines()]

    assert measure(CommandTrial(policy), corpus, Place()).otherwise == ()


def test_every_key_of_a_program_is_documented() -> None:
    keys = set(re.findall(r"^\| `(\w+)`", TEXT, re.MULTILINE))
    effects = {"work", "unknown", "installs", "leaves", "irreversible", "privileged", "secrets"}

    assert keys | effects == set(Row.__struct_fields__)
