"""The rules for places and addresses give one verdict, through whichever tool an agent acts."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from safetyd.core.engine.engine import Engine
from safetyd.core.messages.verdict import ALLOW, ASK, BLOCK, Severity
from tests.core.guards.same_effects import (
    DATA,
    PORT,
    ROOT,
    Call,
    contacting,
    decide,
    deleting,
    policy,
    reading,
    running,
    writing,
)

CODING: Final = Engine(policy("coding"))
STRICT: Final = Engine(policy("strict"))
Effect = Callable[[str], Iterator[Call]]

folders = st.sampled_from(
    [
        *(f"{ROOT}/", f"{ROOT}/src/", "", "src/", "./lib/../src/", "../other/", "/srv/other/"),
        *("/etc/", "/etc/ssl/private/", "/home/me/", "/home/me/.ssh/", "~/", "~/.aws/", "/root/"),
        *("/tmp/x/", "/var/tmp/y/", "/usr/share/doc/", "/opt/tool/", "/var/log/", "/proc/1/"),
        *(
            f"{DATA}/keys/",
            f"{DATA}/journal/",
            "/var/lib/app/",
            ".git/hooks/",
            ".github/workflows/",
        ),
    ]
)
names = st.sampled_from(
    [
        *("a.py", "notes.txt", "Makefile", "build.sh", "ci.yml", "shadow", "hostname", "environ"),
        *(".env", ".env.local", "id_rsa", "credentials", ".npmrc", "server.key", "operator.nk"),
        *(".bashrc", "pre-commit", "settings.json", "x-1_2.log", "secrets.yaml"),
    ]
)
paths = st.builds(lambda folder, name: f"{folder}{name}", folders, names)


def verdicts(engine: Engine, calls: Iterator[Call]) -> dict[Severity, list[Call]]:
    """Return the calls with each decision."""
    found: dict[Severity, list[Call]] = {}
    for call in calls:
        found.setdefault(decide(engine, call).decision, []).append(call)
    return found


@pytest.mark.parametrize("effect", [reading, writing, deleting, running])
@given(path=paths)
def test_an_effect_on_a_path_gets_one_verdict_through_every_tool(effect: Effect, path: str) -> None:
    if effect is deleting:  # code that deletes a name without an extension may delete a folder
        assume("." in path.rpartition("/")[2])

    assert len(verdicts(CODING, effect(path))) == 1


@given(path=paths)
def test_a_path_is_read_by_one_rule_in_the_strict_profile_too(path: str) -> None:
    # There, code on the command line needs approval, whatever it does.
    plain = (call for call in reading(path) if not {"python3", "node"} & {*words(call)})

    assert len(verdicts(STRICT, plain)) == 1


@given(
    st.sampled_from(
        [
            *("169.254.169.254", "2852039166", "[::ffff:a9fe:a9fe]", "instance-data", "metadata"),
            *(f"127.1:{PORT}", f"0:{PORT}", f"[::1]:{PORT}", f"localhost:{PORT}", "localhost:3000"),
            *(
                "example.com",
                "10.0.0.1:80",
                f"example.com:{PORT}",
                "169\u3002254\u3002169\u3002254",
            ),
        ]
    )
)
def test_an_address_gets_one_verdict_through_every_tool(host: str) -> None:
    assert len(verdicts(CODING, contacting(f"http://{host}/x"))) == 1


@pytest.mark.parametrize(
    ("effect", "path", "decision"),
    [
        (reading, "/etc/hostname", ALLOW),
        (reading, "/etc/shadow", ASK),
        (reading, "/home/me/notes.txt", ASK),
        (reading, f"{DATA}/keys/operator.nk", BLOCK),
        (writing, "/tmp/x/a.txt", ALLOW),
        (writing, "/tmp/x/.env", ASK),
        (writing, "/etc/hostname", ASK),
        (deleting, "/tmp/x/a.txt", ALLOW),
        (deleting, "src/a.py", ALLOW),
        (running, "/tmp/x/a.sh", ASK),
    ],
)
def test_the_verdict_is_the_stricter_one(effect: Effect, path: str, decision: Severity) -> None:
    assert {*verdicts(CODING, effect(path))} == {decision}


def words(call: Call) -> list[str]:
    return str(call[1].get("command", "")).split()
