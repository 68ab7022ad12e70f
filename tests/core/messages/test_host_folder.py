"""A coding agent outside the default project works in its own repository."""

from typing import Any

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.messages.host_folder import OWN_FOLDER, in_its_project
from safetyd.core.messages.proposal import Proposal
from safetyd.core.policy import Policy
from tests.story import ask, propose

ROOTS = {"shop": "/srv/shop", "api": "/srv/all/api", "all": "/srv/all"}


def call(root: object, **fields: Any) -> Proposal:
    return Proposal(type="edit_file", context={"project_root": root}, **fields)


@pytest.mark.parametrize(
    ("proposal", "project"),
    [
        (call("/srv/shop/web"), None),
        (call("/srv/all/api/v2"), "api"),
        (call("/srv/all/docs"), "all"),
        (call("/home/me/own"), OWN_FOLDER),
        (call("relative"), None),
        (call(7), None),
        (call("/home/me/own", project="api"), "api"),
    ],
    ids=["default", "inner", "outer", "elsewhere", "relative", "no path", "named"],
)
def test_a_call_belongs_to_the_project_around_its_repository(
    proposal: Proposal, project: str | None
) -> None:
    assert in_its_project(proposal, ROOTS, "shop").project == project


def test_an_edit_in_a_repository_that_is_not_configured_is_judged_there() -> None:
    projects = {"shop": ProjectConfig(root="/srv/shop")}
    engine = Engine(Policy(profile="coding", projects=projects, default_project="shop"))

    def edits(path: str, id_: str) -> bool:
        context = {"project_root": "/home/me/own"}
        fields = {"project": OWN_FOLDER, "paths": (path,), "cwd": "/home/me/own", "text": "a"}
        proposed = propose(0, id=id_, type="edit_file", context=context, **fields)  # type: ignore[arg-type]
        return ask(engine, msgspec.structs.replace(proposed, host="claude")).allowed

    assert edits("/home/me/own/a.py", "p1")
    assert not edits("/srv/shop/a.py", "p2")
    assert engine.policy.project_of(OWN_FOLDER) is None
