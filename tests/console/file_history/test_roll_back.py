"""`safetyd history` and `safetyd rollback`, against a daemon with and one without histories."""

import json
from pathlib import Path
from typing import Any

import pytest

from safetyd.client import SyncSafety
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import told
from tests.journeys.agents import until
from tests.journeys.people import query

CONFIG = """
profile = "coding"
[projects.shop]
root = "{root}/shop"
history = "shadow"
[projects.site]
root = "{root}/site"
history = "shadow"
"""
pytestmark = pytest.mark.journey


class Shop:
    """A daemon, and two commits of each of two projects, the newest first."""

    def __init__(self, daemon: RunningDaemon, root: Path) -> None:
        self.daemon = daemon
        self.cart = root / "shop/cart.py"
        with SyncSafety("code", url=daemon.endpoint.bus) as code:
            for number, name in enumerate(("site", "site", "shop", "shop")):
                file = root / name / "cart.py"
                action = {"paths": [str(file)], "description": f"\x1b[31mchange {number}"}
                assert code.propose("edit_file", **action, id=f"p{number}", session="s").allowed  # type: ignore[arg-type]
                file.write_text(f"{number}\n")
                code.report(f"p{number}", ok=True)
                until(lambda count=number + 1: len(self.commits()) == count)  # type: ignore[misc]
        self.newest, self.before = (row["commit"] for row in self.commits()[:2])

    def commits(self) -> list[dict[str, Any]]:
        return list(query(self.daemon, "commits")["commits"])

    def says(self, *arguments: str) -> str:
        said = told(self.daemon, *arguments)
        assert said.returncode == 0, said.stderr
        return said.stdout

    def refuses(self, *arguments: str) -> str:
        said = told(self.daemon, *arguments)
        assert said.returncode == 1, said.stdout
        return said.stderr


@pytest.fixture(scope="module")
def shop(start_module_daemon: StartDaemon, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    root = tmp_path_factory.mktemp("projects")
    for name in ("shop", "site"):
        (root / name).mkdir()
    return Shop(start_module_daemon(CONFIG.format(root=root)), root)


def test_the_list_has_every_project_newest_first_and_no_control_characters(shop: Shop) -> None:
    listed = shop.says("history")

    assert listed.index("change 3") < listed.index("change 0")
    assert "\x1b" not in listed
    assert "`safetyd history diff COMMIT`" in listed


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (("--project", "site"), ["p1", "p0"]),
        (("--agent", "code", "--limit", "1"), ["p3"]),
        (("--session", "s", "--project", "shop"), ["p3", "p2"]),
        (("--agent", "nobody"), []),
        (("--project", "shop", "--path", "cart.py", "--since", "1h"), ["p3", "p2"]),
        (("--path", "--all"), []),
    ],
)
def test_a_list_is_narrowed_down(shop: Shop, options: tuple[str, ...], ids: list[str]) -> None:
    answer = json.loads(shop.says("history", *options, "--json"))

    assert [row["id"] for row in answer["commits"]] == ids


def test_a_full_list_says_how_to_go_on(shop: Shop) -> None:
    said = shop.says("history", "--limit", "1")
    go_on = said.split("add `")[1].split("`")[0].split()

    rest = json.loads(shop.says("history", *go_on, "--json"))["commits"]

    assert [row["id"] for row in rest] == ["p2", "p1", "p0"]
    assert "add `" not in shop.says("history", "--limit", "200")


def test_where_nothing_fits_it_says_which_projects_there_are(shop: Shop) -> None:
    said = shop.says("history", "--agent", "nobody")

    assert said.endswith(": shop, site\n")


def test_a_project_without_a_history_is_refused_with_what_to_set(shop: Shop) -> None:
    assert "set history under [projects.bar]" in shop.refuses("history", "--project", "bar")


def test_a_commit_is_shown_with_its_decision_and_its_lines(shop: Shop) -> None:
    shown = shop.says("history", "show", shop.newest[:8])
    changed = shop.says("history", "diff", shop.newest)
    between = json.loads(shop.says("history", "diff", shop.newest, shop.before, "--json"))

    assert "Safetyd-Proposal: p3" in shown
    assert "-2\n+3" in changed
    assert "-3\n+2" in between["diff"]


def test_a_commit_that_nobody_has_is_refused_with_the_projects(shop: Shop) -> None:
    said = shop.refuses("history", "show", "00000000")

    assert "no project has a commit 00000000" in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "give --soft (restore the state after COMMIT) or --revert (undo COMMIT)"),
        (("--soft", "--project", "site"), "is not a commit of this project"),
    ],
)
def test_a_rollback_that_is_not_said_whole_changes_nothing(
    shop: Shop, options: tuple[str, ...], why: str
) -> None:
    before = shop.cart.read_text()

    assert why in shop.refuses("rollback", shop.before, *options, "--reason", "r")
    assert shop.cart.read_text() == before


def test_a_rollback_needs_a_reason(shop: Shop) -> None:
    said = told(shop.daemon, "rollback", shop.before, "--soft")

    assert (said.returncode, "--reason" in said.stderr) == (2, True)


def test_a_rollback_says_what_it_did_and_how_to_undo_it(shop: Shop) -> None:
    (planted := shop.cart.with_name(".GIT")).touch()
    said = shop.says("rollback", shop.before, "--soft", "cart.py", "--reason", "wrong way")
    planted.unlink()
    undo = said.split("safetyd rollback ")[1].split()
    went = shop.cart.read_text()
    undone = json.loads(shop.says("rollback", *undo[:2], "--reason", "no", "--json"))

    after = f"the state after {shop.before[:12]}"
    assert said.startswith(f"Rolled back shop to {after}: 1 file restored.\n")
    assert "\n  restored  cart.py\n" in said
    assert "\n  .GIT has a name that git rejects\n" in said.split("  restored  cart.py\n")[1]
    assert (went, shop.cart.read_text()) == ("2\n", "3\n")
    assert (undone["files"], undone["agents"]) == (1, ["code"])


def test_going_back_to_a_commit_that_deleted_says_what_stays_deleted(shop: Shop) -> None:
    orders = shop.cart.with_name("orders.csv")
    with SyncSafety("code", url=shop.daemon.endpoint.bus) as code:
        for id_, change in (("d0", lambda: orders.write_text("1\n")), ("d1", orders.unlink)):
            action = {"paths": [str(orders)], "description": id_}
            assert code.propose("edit_file", **action, id=id_).allowed  # type: ignore[arg-type]
            change()
            code.report(id_, ok=True)
            until(lambda id_=id_: shop.commits()[0]["id"] == id_)  # type: ignore[misc]
    bad = shop.commits()[0]["commit"][:12]

    said = shop.says("rollback", bad, "--soft", "--reason", "bring it back")
    command = f"safetyd rollback {bad} --revert --reason"
    assert f"`{command} WHY`" in said
    shop.says(*command.split()[1:], "bring it back")
    assert orders.exists()
    orders.unlink()


def test_a_commit_is_undone_by_another_one(shop: Shop) -> None:
    said = shop.says("rollback", shop.newest, "--revert", "--reason", "wrong way")

    made = said.split("Commit: ")[1].split()[0]
    assert "-3\n+2" in shop.says("history", "diff", made)
    shop.says("rollback", shop.newest, "--soft", "--reason", "as it was")


def test_without_a_project_it_says_what_to_set(start_daemon: StartDaemon) -> None:
    said = told(start_daemon(), "history")

    assert "Set history = " in said.stdout
