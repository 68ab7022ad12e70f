"""An option lets a use pass only if it is there for certain, and stops one if it may be."""

import pytest

from safetyd.core.shell import judge, programs
from safetyd.core.shell.programs import Row, Verb
from safetyd.core.shell.reading import Effect

TABLE = programs.shipped().with_rows(
    {
        "ship": Row(
            read=(
                Verb(words="out", with_=("--dry-run=client", "--dry-run=server")),
                Verb(words="out --list"),
                Verb(words="out", with_=("--format",)),
                "exec",
                "queue list",
            ),
            leaves=("out", "queue *", Verb(words="in", with_=("--to=cloud",))),
            work=("in",),
            otherwise=Effect.UNKNOWN,
            options_with_value=("--format", "--to"),
            run=("exec",),
        )
    }
)


@pytest.mark.parametrize(
    "command",
    [
        "ship out --dry-run=client",
        "ship out --dry-run=server",
        "ship out --list",
        "ship out --list=true",
        "ship out --format json",
        "ship in --to=disk",
        "ship in",
        "ship out --help",
        "ship help out",
        "ship queue list",
        "ship exec -- /opt/app/start",
    ],
)
def test_what_certainly_only_looks_passes(command: str) -> None:
    assert judge.read(command, TABLE).stopping == []


@pytest.mark.parametrize(
    "command",
    [
        "ship out --dry-run=none",
        "ship out --dry-run",
        "ship queue drop",
        "ship out --dry-run=client --dry-run=none",
        "ship out --dry-$X",
        "ship out --list=false",
        "ship out --$X",
        "ship in --to=cloud",
        'ship in --to="$X"',
        "ship out --help=false",
        "ship exec -- rm -rf / --help",
        "/opt/app/start",
    ],
)
def test_what_may_do_more_is_stopped(command: str) -> None:
    assert judge.read(command, TABLE).stopping


@pytest.mark.parametrize(
    ("command", "origin"),
    [("sh -c $X", "a text that is not known"), ("sh -c $(curl x)", "downloaded")],
)
def test_a_variable_of_the_surroundings_is_no_download(command: str, origin: str) -> None:
    assert origin in judge.read(command, TABLE).stopping[0].why
