"""Results of the analysis are cached by command, folder and project, up to a limit."""

import pytest

from safetyd.core.action_types import Kinds
from safetyd.core.messages.proposal import Proposal
from safetyd.core.policy import Policy
from safetyd.core.shell.command_reader import MAX_CACHED, MAX_LETTERS, CommandReader


@pytest.fixture
def reader() -> CommandReader:
    policy = Policy()
    return policy.reader(Kinds(policy.types, policy.profile))


def command(text: str, cwd: str | None = None) -> Proposal:
    return Proposal(type="run_shell", text=text, cwd=cwd)


def test_a_command_is_analysed_once_per_folder(reader: CommandReader) -> None:
    first = reader.reading(command("cat a.txt", "/srv/a"))

    assert reader.reading(command("cat a.txt", "/srv/a")) is first
    assert reader.reading(command("cat a.txt", "/srv/b")) != first


@pytest.mark.parametrize(
    ("many", "letters"), [(MAX_CACHED, 10), (20, MAX_LETTERS // 20), (1, MAX_LETTERS)]
)
def test_new_results_replace_the_oldest_ones(
    reader: CommandReader, many: int, letters: int
) -> None:
    first = reader.reading(command("ls"))
    for number in range(many):
        reader.reading(command(f"echo {number:0{letters}}"))

    again = reader.reading(command("ls"))
    assert (again == first, again is first) == (True, False)


def test_readers_for_coding_agents_and_others_share_their_results(reader: CommandReader) -> None:
    of_hosts = reader.with_kinds(Kinds({}, "coding"))

    assert of_hosts.reading(command("cat a.txt")) is reader.reading(command("cat a.txt"))
    assert of_hosts.kinds.named("run_shell").tier != reader.kinds.named("run_shell").tier
