"""A patch that touches what is safetyd's own is blocked as a path would be."""

import pytest

from safetyd.core.action_types import Kinds
from safetyd.core.guards.gate.own_resources import OWN, OwnConfig, OwnResources
from safetyd.core.messages.verdict import ALLOWED, BLOCK, Verdict
from tests.core.text.patch_samples import unified
from tests.story import propose

KINDS = Kinds({}, "coding")
OURS = OwnResources(
    OwnConfig(directories=("/srv/state/sd",), settings=("/etc/guard/my.toml",)),
    {"web": "/srv/web"},
)


def look(type_: str, path: str, project: str | None = None) -> Verdict:
    patch = unified(f"a/{path}", f"b/{path}") if path[0] != "/" else unified(path, path)
    proposed = propose(0, type=type_, context={"diff": patch}, project=project)
    return OURS.judge(proposed, KINDS.of(proposed.proposal))


@pytest.mark.parametrize(
    ("path", "project"),
    [
        ("/srv/state/sd/journal", None),
        ("/srv/state/x/../sd/keys/a", None),
        ("../state/sd/journal", "web"),
        ("keys/operator.nk", None),
        ("x/EMERGENCY_STOP", "web"),
        ("/etc/guard/my.toml", None),
    ],
)
def test_what_is_its_own_is_blocked(path: str, project: str | None) -> None:
    verdict = look("edit_file", path, project)

    assert (verdict.decision, verdict.rule) == (BLOCK, OWN)
    assert path.removeprefix("a/") in verdict.reason


def test_everything_else_passes() -> None:
    assert look("edit_file", "src/app.py") is ALLOWED
    assert look("edit_file", "src/app.py", "web") is ALLOWED
    assert look("git_diff", "/etc/guard/my.toml") is ALLOWED
