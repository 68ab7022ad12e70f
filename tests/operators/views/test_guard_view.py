import itertools
import tomllib

import pytest

from safetyd.core.action_types import TypeConfig
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Moment
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.policy import Policy
from safetyd.operators.views.guard_view import MAX_COMPARED, budgets, types
from tests.operators.views.view_reader import plain, played
from tests.story import at, play, propose, report


def test_budgets_show_dollars_and_the_fullest_first() -> None:
    engine = played(
        propose(0, id="p1", cost_usd=0.5, model="m"),
        report(1, Outcome(id="p1", ok=True, cost_usd=0.25)),
        propose(2, id="p2", cost_usd=0.5, session="s"),
    )

    view = plain(budgets(engine, Moment(at(3), 3.0)))

    day = {"scope": "day", "id": "2026-03-01", "agent": None}
    amounts = {"spent": 0.25, "reserved": 0.5, "limit": 50.0, "raised": 0.0, "pending": 0.0}
    assert view["budgets"][0] == {**day, **amounts}
    assert {(b["scope"], b["limit"]) for b in view["budgets"]} >= {("agent", None)}
    assert view["spending"] == [{"agent": "code", "session": "", "model": "m", "spent": 0.25}]
    assert view["left_out"] == 0


def test_a_request_that_a_budget_caused_is_pending_too() -> None:
    engine = Engine(Policy(budget=BudgetConfig(session_usd=1.0)))
    play(engine, propose(1, cost_usd=1.9))

    rows = plain(budgets(engine, Moment(at(2), 2.0)))["budgets"]
    shown = {row["scope"]: row["pending"] for row in rows}

    assert (shown["day"], shown["session"]) == (1.9, 1.9)


def test_budgets_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.operators.views.guard_view.MAX_ROWS", 1)
    engine = played(propose(0, cost_usd=0.5))

    view = plain(budgets(engine, Moment(at(3), 3.0)))

    assert [b["scope"] for b in view["budgets"]] == ["day"]
    assert view["left_out"] > 0


def test_types_show_what_each_can_do() -> None:
    view = plain(types(Engine(Policy()), Moment(at(0), 0.0)))

    assert {
        "type": "send_email",
        "tier": "requires_permission",
        "risk": "high",
        "reversibility": "irreversible",
        "human": True,
        "aliases": ["email", "forward_email", "mail", "reply_email", "reply_to_email", "send_mail"],
    } in view["types"]
    assert view["unknown"] == []


@pytest.mark.parametrize("odd", ["zzz", "zzz.q", 'z"q', "z\x7fq", "z\tq", "\U0001f4a3", "git_logs"])
def test_unknown_type_comes_with_toml_that_makes_it_known(odd: str) -> None:
    engine = played(propose(0, type=odd), propose(1, id="p2", type=odd))

    (row,) = plain(types(engine, Moment(at(2), 2.0)))["unknown"]

    assert row["count"] == 2
    (known,) = tomllib.loads(row["toml"])["types"]
    assert known == row["type"]
    assert ("same_as" in row["toml"]) == (odd == "git_logs")


def test_of_many_unknown_types_only_the_most_proposed_are_compared() -> None:
    often = [propose(n, id=f"a{n}", type="red_file") for n in range(2)]
    ends = itertools.islice("abcdefghijklmnopqrtuvwxyz0123456789", MAX_COMPARED)
    rare = [propose(n, id=f"b{n}", type=f"read_file{end}") for n, end in enumerate(ends)]

    rows = plain(types(played(*rare, *often), Moment(at(99), 99.0)))["unknown"]

    assert rows[0]["toml"] == '[types.red_file]\nsame_as = "read_file"'
    assert ["same_as" in row["toml"] for row in rows] == [True] * MAX_COMPARED + [False]


def test_a_type_that_is_only_somewhat_like_a_known_one_is_asked_about() -> None:
    (row,) = plain(types(played(propose(0, type="bake_bread")), Moment(at(1), 1.0)))["unknown"]

    assert tomllib.loads(row["toml"])["types"]["bake_bread"] == {
        "tier": "requires_permission",
        "reversibility": "unknown",
        "risk": "high",
    }


def test_other_names_of_types_are_shown() -> None:
    policy = Policy(types={"Peek": TypeConfig(same_as="read_file"), "bake": TypeConfig(risk="low")})

    view = plain(types(Engine(policy), Moment(at(0), 0.0)))

    aliases = {row["type"]: row["aliases"] for row in view["types"]}
    assert view["same_as"] == {"Peek": "read_file"}
    assert {"peek", "cat"} <= {*aliases["read_file"]}
    assert aliases["bake"] == []


def test_a_shipped_name_that_is_replaced_is_shown_where_it_leads_now() -> None:
    policy = Policy(types={"Cat": TypeConfig(same_as="Bash"), "view": TypeConfig(risk="low")})

    view = plain(types(Engine(policy), Moment(at(0), 0.0)))

    aliases = {row["type"]: row["aliases"] for row in view["types"]}
    assert {"bash", "cat"} <= {*aliases["run_shell"]}
    assert not {"cat", "view"} & {*aliases["read_file"]}
    assert aliases["view"] == []
