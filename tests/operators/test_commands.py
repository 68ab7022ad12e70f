import msgspec
import pytest

from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    BudgetRaised,
    CostStruck,
    Paused,
    PersonSeen,
    SafeModeEntered,
    SafeModeExited,
    Unpaused,
)
from safetyd.core.policy import Policy
from safetyd.journal.commit_loop import INPUT_BYTES, put
from safetyd.journal.journals import MAX_BATCH_BYTES
from safetyd.journal.mailbox import CommandEnvelope
from safetyd.operators.commands import PLANS
from tests.captured_connection import never_fails
from tests.core.guards.budget.budget_rig import cost
from tests.operators.bound_handlers import taken
from tests.schemas import validator
from tests.story import play


class Alice:
    """An operator, and an engine that does what she says."""

    def __init__(self) -> None:
        self.engine = Engine(Policy())
        self.clock = Clock()
        self.answer: dict[str, object] = {}

    def says(self, command: str, **fields: object) -> list[Event]:
        """Return what is written down, without what people are told of it."""
        return [e for e in self.causes(command, **fields) if not isinstance(e, SafetyEvent)]

    def causes(self, command: str, **fields: object) -> list[Event]:
        envelope = CommandEnvelope(
            taken(PLANS, "control", command, "alice", fields), self._hear, never_fails
        )
        events = put(self.engine, envelope, self.clock.now())
        envelope.deliver(late=False)
        return list(events)

    def _hear(self, answer: object) -> None:
        self.answer = msgspec.json.decode(msgspec.json.encode(answer))


@pytest.fixture
def alice() -> Alice:
    return Alice()


def test_pause_holds_one_agent_and_says_who_paused_it(alice: Alice) -> None:
    (paused,) = alice.says("pause", agent="code", reason="lunch")

    assert alice.answer == {"ok": True}
    assert isinstance(paused, Paused)
    assert (paused.agent, paused.source) == ("code", "operator")
    assert (paused.by, paused.reason) == ("alice", "lunch")
    assert alice.engine.guards.pause.agents == ("code",)


def test_unpause_clears_every_source(alice: Alice) -> None:
    now = alice.clock.now()
    play(alice.engine, Paused(at=now.at, t=now.t, agent="code", source="budget", by="safetyd"))
    alice.says("pause", agent="code")

    (unpaused,) = alice.says("unpause", agent="code", reason="back")

    assert alice.answer == {"ok": True, "cleared": ["budget", "operator"]}
    assert isinstance(unpaused, Unpaused)
    assert (unpaused.by, unpaused.reason) == ("alice", "back")
    assert alice.engine.guards.pause.agents == ()


def test_unpause_of_what_is_not_paused_writes_nothing(alice: Alice) -> None:
    assert alice.says("unpause", agent="code") == []
    assert alice.answer == {"ok": True, "cleared": []}


@pytest.mark.parametrize(
    ("fields", "agent"), [({}, None), ({"agent": "*"}, None), ({"agent": "code"}, "code")]
)
def test_safe_mode_is_entered_by_one_agent_or_by_everybody(
    alice: Alice, fields: dict[str, str], agent: str | None
) -> None:
    (entered,) = alice.says("safe_mode_enter", reason="drill", **fields)

    assert alice.answer == {"ok": True}
    assert isinstance(entered, SafeModeEntered)
    assert (entered.agent, entered.by, entered.reason) == (agent, "alice", "drill")


@pytest.mark.req("S0.16")
def test_exit_waits_for_the_cooldown(alice: Alice) -> None:
    alice.says("safe_mode_enter", agent="code")

    assert alice.says("safe_mode_exit") == []

    left_ms = alice.answer.pop("cooldown_remaining_ms")
    assert isinstance(left_ms, int)
    assert 50_000 < left_ms <= 60_000
    assert (alice.answer["ok"], alice.answer["code"]) == (False, "cooling_down")
    assert alice.engine.guards.safe_mode.status("code", 0.0).active


@pytest.mark.req("S0.8")
def test_forced_exit_is_recorded_with_its_reason(alice: Alice) -> None:
    alice.says("safe_mode_enter", agent="code")

    (exited,) = alice.says("safe_mode_exit", force=True, reason="drill is over")

    assert alice.answer == {"ok": True, "left": ["code"], "more": 0, "still": []}
    assert isinstance(exited, SafeModeExited)
    assert (exited.agent, exited.by) == ("code", "alice")
    assert (exited.forced, exited.reason) == (True, "drill is over")


def test_what_goes_with_a_refusal_is_in_the_contract(alice: Alice) -> None:
    refusals = []
    alice.says("safe_mode_enter", agent="code")
    for fields in ({"agent": "code"}, {}):
        alice.says("safe_mode_exit", **fields)
        refusals.append(alice.answer)
        alice.says("safe_mode_enter")

    assert [refusal["code"] for refusal in refusals] == ["cooling_down", "several"]
    for refusal in refusals:
        validator("refusal", closed=True).validate(refusal)


def test_exit_that_could_mean_several_names_them(alice: Alice) -> None:
    alice.says("safe_mode_enter")
    alice.says("safe_mode_enter", agent="code")

    assert alice.says("safe_mode_exit", force=True, reason="over") == []

    assert (alice.answer["code"], alice.answer["agents"]) == ("several", ["*", "code"])
    assert "(*, code)" in str(alice.answer["error"])


@pytest.mark.parametrize(
    ("agent", "left", "still"),
    [("code", ["code"], ["*"]), ("ops", [], ["*"]), ("*", ["*"], ["code"])],
)
def test_exit_says_what_still_holds(
    alice: Alice, agent: str, left: list[str], still: list[str]
) -> None:
    alice.says("safe_mode_enter")
    alice.says("safe_mode_enter", agent="code")

    alice.says("safe_mode_exit", agent=agent, force=True, reason="over")

    assert (alice.answer["left"], alice.answer["still"]) == (left, still)


def test_exit_of_all_leaves_each_kernel_once(alice: Alice) -> None:
    alice.says("safe_mode_enter")
    alice.says("safe_mode_enter", agent="code")

    exits = alice.says("safe_mode_exit", all=True, force=True, reason="over")

    assert [e.agent for e in exits if isinstance(e, SafeModeExited)] == [None, "code"]
    assert len(exits) == 2
    assert not alice.engine.guards.safe_mode.status(None, 0.0).active


@pytest.mark.parametrize("reason", ["over", "x" * 500, "\x01" * 500, "x" * 60_000])
def test_exit_of_very_many_leaves_as_many_as_the_journal_takes_at_once(
    alice: Alice, reason: str
) -> None:
    for number in range(500):
        alice.says("safe_mode_enter", agent=f"agent-{number:058}")

    events = alice.causes("safe_mode_exit", all=True, force=True, reason=reason)

    left = alice.answer["left"]
    assert isinstance(left, list)
    assert left
    assert alice.answer["more"] == 500 - len(left)
    assert len(alice.engine.guards.safe_mode.status(None, 0.0).agents) == 500 - len(left)
    size = sum(len(encode(event)) + 1 for event in events)
    assert size <= (INPUT_BYTES if len(left) > 1 else MAX_BATCH_BYTES)


def test_exit_of_what_is_not_in_safe_mode_changes_nothing(alice: Alice) -> None:
    assert alice.says("safe_mode_exit", agent="*") == []
    assert alice.answer == {"ok": True, "left": [], "more": 0, "still": []}


def test_budget_is_raised_for_a_reason_and_until_midnight(alice: Alice) -> None:
    (raised,) = alice.says("budget_raise", scope="day", usd=5, reason=" the release ")

    assert isinstance(raised, BudgetRaised)
    assert (raised.scope, raised.usd, raised.by) == ("day", 5, "alice")
    assert raised.reason == "the release"
    assert alice.answer["limit"] == 55
    assert str(alice.answer["until"]).endswith("T00:00:00Z")
    assert alice.engine.guards.anomaly.since_human_s(raised.t) == 0


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"reason": " "}, "reason"),
        ({"name": "code"}, "day"),
        ({"scope": "agent"}, "agent"),
        ({"scope": "keyless"}, "keyless"),
        ({"scope": "model", "name": "o4"}, "model o4"),
    ],
)
def test_budget_that_cannot_be_raised_says_why(
    alice: Alice, wrong: dict[str, object], named: str
) -> None:
    fields = {"scope": "day", "usd": 5, "reason": "the release", **wrong}

    assert alice.says("budget_raise", **fields) == []
    assert (alice.answer["ok"], alice.answer["code"]) == (False, "invalid")
    assert named in str(alice.answer["error"])


@pytest.mark.parametrize(
    ("id_", "reason", "code"), [("0", "a drill", "not_found"), ("{id}", " ", "invalid")]
)
def test_a_large_report_is_struck_for_a_reason(
    alice: Alice, id_: str, reason: str, code: str
) -> None:
    alice.engine.handle(cost(0, None, 9e8))
    (entry,) = alice.engine.guards.budget.large_reports()

    assert alice.says("budget_strike", id=id_.format(id=entry.id), reason=reason) == []
    assert alice.answer["code"] == code
    (struck,) = alice.says("budget_strike", id=entry.id, reason=" made up ")

    assert isinstance(struck, CostStruck)
    assert (struck.agent, struck.usd, struck.by, struck.reason) == ("code", 9e8, "alice", "made up")
    assert alice.answer == {"ok": True, "agent": "code", "usd": 9e8, "paused": True}
    assert alice.engine.guards.anomaly.since_human_s(struck.t) == 0


def test_ack_shows_that_a_person_is_there(alice: Alice) -> None:
    (seen,) = alice.says("ack")

    assert alice.answer == {"ok": True}
    assert isinstance(seen, PersonSeen)
    assert (seen.by, seen.how) == ("alice", "ack")
