"""What is said of commands: assignments, redirections, limits, and what cannot be read."""

import pytest

from safetyd.core.shell.judge import read
from safetyd.core.shell.places import Project, project_of
from safetyd.core.shell.programs import shipped
from safetyd.core.shell.reading import Effect
from tests.core.shell.verdicts import stopping

PROJECT = Project("/home/me/project")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SAFETYD_HOME=/tmp/x ls", "sets SAFETYD_HOME, which is safetyd's own"),
        ("PATH=/tmp/x:$PATH ls", "changes where programs are found"),
        ("LD_PRELOAD=./x.so ls", "sets LD_PRELOAD, which makes programs load"),
        ("PAGER=$X git log", "sets PAGER, which other programs run, to what is not known"),
        ("cat < /dev/tcp/h/1", "opens a connection to another machine"),
        ("sh < $X", "not known before it runs"),
        ("sh -c $X", "a text that is not known"),
        ("sh -c $(curl x)", "downloaded"),
        ("a='b[$(ls)]'", "assigns a text that runs a command where it is counted with"),
        ("alias x=ls; x $Y", "the alias x has words that are not known"),
        ("ls " + "a" * 70_000, "is longer than 64 KiB"),
        ("echo '" + "é" * 40_000 + "'", "is longer than 64 KiB"),
        ("<" * 5_000, "is too tangled to be read"),
        ("echo " + "${" * 2_000, "is too tangled to be read"),
        ("echo " + "${a:-" * 5_000 + "}" * 5_000, "is too tangled to be read"),
        ("ls;" * 500, "has more than 400 commands"),
        ("X=1;" * 12_000, "has loops or functions that are too long to be read"),
        ("X='" + "a" * 50_000 + "'; echo " + "$X" * 40, "has variables that grow too long"),
        ("( " * 2_000 + "ls" + " )" * 2_000, "is nested too deep to be read"),
        ("echo $(" * 14 + "ls" + ")" * 14, "is nested more than 12 deep"),
        ("echo \x07", "control character U+0007"),
        ("frobnicate now", "which is not in the table of programs"),
        ("ls > {a,b}", "it redirects to several files at once"),
        ("[[ a ]] > x y", "it has words where none belong"),
        ("ls | [[ a ]] > x y", "it has words where none belong"),
        ("case x in&esac", "cannot be read"),
        ("{ }", "cannot be read"),
        # The parser would look for these beyond the end of a table, and could end the daemon.
        *(
            (f"echo {brace}", "right behind a brace")
            for brace in ("{日", "{1東}", "{1..本}", "a{..Ā")
        ),
    ],
)
def test_what_stops_says_why(text: str, why: str) -> None:
    assert why in " / ".join(found.why for found in stopping(text, PROJECT))


def test_a_check_that_the_project_declares_passes() -> None:
    assert stopping("frobnicate all", PROJECT, checks=["frobnicate all"]) == []
    assert stopping("frobnicate some", PROJECT, checks=["frobnicate all"])


def test_the_strictest_effect_is_that_of_the_command() -> None:
    assert read("ls; rm -rf /", shipped(), PROJECT).effect is Effect.IRREVERSIBLE
    assert read("# nothing", shipped(), PROJECT).effect is Effect.READ


def test_a_folder_stands_for_a_project_that_nobody_configured() -> None:
    assert project_of("", "/home/me/work") == Project("/home/me/work", "/home/me/work")
    assert project_of("", "/etc") == Project("", "/etc")
    assert project_of("/srv/x", "src") == Project("/srv/x", "/srv/x/src")
    assert project_of("", "") == Project("", "")
