import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from safetyd.agents.agent_service import STALE_S, AgentService
from safetyd.agents.commits_before import NO_COMMITS, CommitsBefore
from safetyd.agents.emergency_stop import StopFlag
from safetyd.agents.held_replies import HeldReplies
from safetyd.agents.intake import DRY_RUNS_PER_MINUTE
from safetyd.agents.proposal_envelope import ProposalEnvelope
from safetyd.agents.refusals import ANSWERED, ANSWERED_IN_FULL, SHORT_BYTES, Refusals
from safetyd.bus.keyring import Keyring
from safetyd.clock import Clock, uptime
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Reported, Withheld
from safetyd.core.events.event import Event
from safetyd.core.guards.rate.rate import RateConfig
from safetyd.core.guards.stop import Stop
from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from safetyd.daemon.config import Config
from safetyd.daemon.settings import Settings
from safetyd.journal.mailbox import STALLED_S, Mailbox
from safetyd.monitoring.metrics import Metrics
from tests.captured_connection import REPLY, CapturedPublisher, work_off
from tests.story import NOON

A_STOP = Stop(source="operator", by="alice", reason="drill", since=NOON, agent=None, epoch=1)
FOR_FREE = Config(rate=RateConfig(attempts_per_second=0))


class Counter:
    """A service over a real engine, and everything around it that a test may turn."""

    def __init__(
        self,
        data_dir: Path,
        config: Config = FOR_FREE,
        *,
        keyless: bool = False,
        commits: CommitsBefore = NO_COMMITS,
        replaceable: bool = False,
    ) -> None:
        Keyring(data_dir / "keys").make_own()
        self.settings = Settings(config, None, data_dir)
        self.captured = CapturedPublisher(keyless=keyless)
        self.mailbox = Mailbox()
        self.stop_flag = StopFlag()
        self.refusals = Refusals()
        self.metrics = Metrics("1")
        self.engine = Engine(Policy())
        self.problem = ""
        self.answers = HeldReplies({keyless: self.captured.publisher}, self.stop_flag)
        self.service = AgentService(
            self.captured.publisher,
            self.mailbox,
            self.settings,
            self.stop_flag,
            self.refusals,
            self.metrics,
            answers=self.answers,
            commits=commits,
            clock=Clock(),
            keyless=keyless,
            problem=lambda: self.problem,
            boot_id="b00t",
            replaceable=replaceable,
        )

    def propose(self, agent: str = "code", payload: bytes = b"", **fields: Any) -> None:
        content = payload or msgspec.json.encode({"type": "read_file", **fields})
        self.service.propose(f"safety.v1.propose.{agent}".encode(), REPLY, content)

    def tell(self, agent: str = "code", payload: bytes = b'{"type": "heartbeat"}') -> None:
        self.service.telemetry(f"safety.v1.telemetry.{agent}".encode(), REPLY, payload)

    def write(self, *, late: bool = False) -> list[Event]:
        return work_off(self.mailbox, self.engine, late=late)

    def asked(self, agent: str = "code", payload: bytes = b"", **fields: Any) -> dict[str, Any]:
        """Return the answer to a proposal."""
        self.propose(agent, payload, **fields)
        self.write()
        return self.captured.answer()


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    return Counter(tmp_path)


async def test_proposal_is_answered_once_it_is_written(counter: Counter) -> None:
    counter.propose(id="p1")
    before = counter.captured.said()

    counter.write()

    decision, reply = counter.captured.said()
    assert before == []
    assert decision.subject == "safety.v1.decision.code.p1"
    assert reply.subject == REPLY.decode()
    assert decision.fields == reply.fields
    assert (reply.fields["decision"], reply.fields["seq"]) == ("allow", 1)
    assert counter.metrics.counts()[Severity("allow")] == 1


async def test_proposal_without_an_id_gets_one_of_its_own(counter: Counter) -> None:
    first, second = counter.asked()["id"], counter.asked()["id"]

    assert first.startswith("b00tn")
    assert first != second


async def test_keyless_agents_get_ids_of_their_own_kind(tmp_path: Path) -> None:
    assert Counter(tmp_path, keyless=True).asked()["id"].startswith("b00tk")


async def test_blocked_proposal_is_answered_however_late(counter: Counter) -> None:
    counter.propose(type="run_shell", text="rm -rf /")

    counter.write(late=True)

    assert counter.captured.answer()["decision"] == "block"


async def test_late_allow_is_withheld_and_recorded(counter: Counter) -> None:
    counter.propose(id="p1")

    counter.write(late=True)
    answer = counter.captured.answer()
    (withheld,) = counter.write()

    assert (answer["decision"], answer["cause"]) == ("block", "unavailable")
    assert (answer["id"], answer["digest"][:7]) == ("p1", "sha256:")
    assert isinstance(withheld, Withheld)
    assert (withheld.agent, withheld.id, withheld.why) == ("code", "p1", "late")
    assert counter.metrics.counts() == {"allow": 0, "require_confirmation": 0, "block": 1}


async def test_allow_that_waited_too_long_since_receipt_is_withheld(counter: Counter) -> None:
    counter.propose(id="p1")
    counter.mailbox._envelopes[0].received -= STALE_S + 1

    counter.write()

    assert counter.captured.answer()["cause"] == "unavailable"


async def test_retry_of_a_withheld_allow_finds_it(counter: Counter) -> None:
    counter.propose(id="p1")
    counter.write(late=True)
    counter.write()
    counter.captured.said()

    answer = counter.asked(id="p1")

    assert (answer["decision"], answer["seq"]) == ("allow", 1)


def _refusals(counter: Counter) -> list[dict[str, Any]]:
    """Return the answers to one message of each kind."""
    for verb, content in (
        ("propose", {"type": "read_file", "id": "p1"}),
        ("permission", {"action": "push", "id": "p2"}),
        ("claim", {"id": "p3", "digest": "sha256:0"}),
        ("telemetry", {"type": "heartbeat"}),
    ):
        handle = getattr(counter.service, verb)
        handle(f"safety.v1.{verb}.code".encode(), REPLY, msgspec.json.encode(content))
    return [said.fields for said in counter.captured.said() if said.subject == REPLY.decode()]


@pytest.mark.parametrize("replaceable", [True, False])
async def test_only_a_daemon_that_can_be_replaced_asks_to_send_a_refused_message_again(
    tmp_path: Path, *, replaceable: bool
) -> None:
    counter = Counter(tmp_path, replaceable=replaceable)
    counter.problem = "safetyd is starting or stopping"

    answers = _refusals(counter)

    assert [answer.get("cause", answer.get("code")) for answer in answers] == ["unavailable"] * 4
    assert [answer.get("retry", "absent") for answer in answers] == (
        [True] * 4 if replaceable else ["absent"] * 4
    )


async def test_a_refusal_for_another_reason_does_not_ask_to_send_it_again(tmp_path: Path) -> None:
    counter = Counter(tmp_path, replaceable=True)
    counter.problem = "safetyd is starting or stopping"
    counter.stop_flag.set(A_STOP)
    counter.propose(id="p1")

    answer = counter.captured.answer()

    assert (answer["cause"], "retry" in answer) == ("stopped", False)


async def test_a_daemon_that_can_be_replaced_asks_to_send_a_late_allow_again(
    tmp_path: Path,
) -> None:
    counter = Counter(tmp_path, replaceable=True)
    counter.propose(id="p1")
    counter.write(late=True)
    withheld = counter.captured.answer()
    counter.write()
    counter.captured.said()

    again = counter.asked(id="p1")

    assert (withheld["cause"], withheld["retry"]) == ("unavailable", True)
    assert (again["decision"], again["seq"]) == ("allow", 1)


async def test_allow_is_withheld_when_a_stop_came_meanwhile(counter: Counter) -> None:
    counter.propose(id="p1")
    counter.stop_flag.set(A_STOP)

    counter.write()
    answer = counter.captured.answer()
    (withheld,) = counter.write()

    assert (answer["decision"], answer["cause"]) == ("block", "stopped")
    assert "by alice: drill" in answer["reason"]
    assert isinstance(withheld, Withheld)
    assert withheld.why == "stopped"


async def test_envelope_that_was_not_opened_cannot_be_sent(counter: Counter) -> None:
    counter.propose()
    envelope = counter.mailbox.take()
    assert isinstance(envelope, ProposalEnvelope)

    with pytest.raises(AssertionError):
        envelope.deliver(late=False)


@pytest.mark.parametrize("agent", ["a b", "a>b", "é", "x" * 65])
async def test_agent_with_an_impossible_name_is_refused(counter: Counter, agent: str) -> None:
    answer = counter.asked(agent)
    counter.tell(agent)

    assert (answer["cause"], answer["agent"]) == ("malformed", "unknown")
    assert counter.captured.answer()["code"] == "malformed"
    assert [r.agent for r in counter.refusals.take(Clock().now())] == ["unknown"]


@pytest.mark.parametrize(
    "payload",
    [
        b"{",
        b"[]",
        b'{"text": "no type"}',
        b'{"type": "x", "agent": "ops"}',
        b'{"type": "x", "text": "\\u0000"}',
        b" " * (MAX_MESSAGE_BYTES + 1),
        b'{"type": "x", "context": {"a": [' + b"1e15," * 12_000 + b"1]}}",
        b"\xff\xfe",
    ],
)
async def test_malformed_proposal_is_blocked_and_told_why(counter: Counter, payload: bytes) -> None:
    answer = counter.asked(payload=payload)

    assert (answer["decision"], answer["cause"]) == ("block", "malformed")
    assert answer["reason"]
    assert counter.engine.seq == 0


async def test_agent_that_sends_too_much_is_told_how_long_to_wait(tmp_path: Path) -> None:
    counter = Counter(tmp_path, Config(rate=RateConfig(attempts_per_second=1)))
    for number in range(4):
        counter.asked(id=f"p{number}")

    answer = counter.asked(id="p5")

    assert (answer["cause"], answer["limit_id"]) == ("rate_limit", "intake:code")
    assert answer["triggered_rules"] == ["intake.agent"]
    assert 0 < answer["retry_after_s"] <= 1
    assert (answer["id"], answer["digest"][:7]) == ("p5", "sha256:")
    assert counter.metrics.counts()[Severity("block")] == 1


async def test_agent_whose_proposals_took_too_long_waits_while_others_are_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(tmp_path, Config())
    for number in range(3):
        counter.propose("slow", type="read_file", id=f"p{number}")
    counter.service.permission(
        b"safety.v1.permission.slow", REPLY, b'{"action":"push","context":{"text":"x"}}'
    )
    counter.propose("quick", type="read_file", id="q1")
    # Each decision seems to take a second of CPU time.
    seconds, now = itertools.count(), itertools.count(uptime(), 0.1)
    monkeypatch.setattr("safetyd.clock.worked", lambda: float(next(seconds)))
    monkeypatch.setattr("safetyd.agents.proposal_envelope.worked", lambda: float(next(seconds)))
    monkeypatch.setattr("safetyd.agents.proposal_envelope.uptime", lambda: next(now))

    counter.write()

    first, second, third, permission, other = counter.captured.answers()
    assert (first["decision"], other["decision"]) == ("allow", "allow")
    for refused in (second, third):
        assert (refused["decision"], refused["cause"]) == ("block", "rate_limit")
        assert refused["retry_after_s"] > 1
    assert second["id"] == "p1"
    assert (permission["approved"], permission["cause"]) == (False, "rate_limit")


async def test_long_spam_is_answered_without_reading_it(tmp_path: Path) -> None:
    counter = Counter(tmp_path, Config(rate=RateConfig(attempts_per_second=1)))
    for number in range(4 + ANSWERED_IN_FULL):
        counter.asked(id=f"p{number}")

    short = counter.asked(id="short")
    long = counter.asked(id="long", text="x" * SHORT_BYTES)

    assert (short["id"], short["digest"][:7]) == ("short", "sha256:")
    assert long["digest"] == ""
    assert long["id"].startswith("b00t")


async def test_endless_spam_is_not_answered_at_all(tmp_path: Path) -> None:
    counter = Counter(tmp_path, Config(rate=RateConfig(attempts_per_second=1)))
    for number in range(4 + ANSWERED):
        counter.asked(id=f"p{number}")

    counter.propose(id="one-too-many")
    counter.write()

    assert counter.captured.said() == []


async def test_malformed_spam_is_refused_for_its_rate(tmp_path: Path) -> None:
    counter = Counter(tmp_path, Config(rate=RateConfig(attempts_per_second=1)))
    for number in range(4):
        counter.asked(id=f"p{number}")

    answer = counter.asked(payload=b"{")

    assert (answer["cause"], answer["digest"]) == ("rate_limit", "")


async def test_too_many_dry_runs_are_refused(tmp_path: Path) -> None:
    counter = Counter(tmp_path, Config(rate=RateConfig(attempts_per_second=1000)))
    for _ in range(DRY_RUNS_PER_MINUTE):
        assert counter.asked(dry_run=True)["decision"] == "allow"

    answer = counter.asked(dry_run=True)

    assert (answer["cause"], answer["limit_id"]) == ("rate_limit", "dry_run:code")


async def test_while_something_is_wrong_nothing_is_decided(counter: Counter) -> None:
    counter.problem = "the disk is full"

    answer = counter.asked(id="p1")

    assert (answer["cause"], answer["reason"]) == ("unavailable", "the disk is full")
    assert (answer["id"], answer["digest"][:7]) == ("p1", "sha256:")
    assert counter.engine.seq == 0


async def test_stop_is_the_reason_even_when_nothing_can_be_written(counter: Counter) -> None:
    counter.problem = "the disk is full"
    counter.stop_flag.set(A_STOP)

    answer = counter.asked()

    assert answer["cause"] == "stopped"
    assert "by alice: drill" in answer["reason"]


async def test_nothing_is_taken_while_too_much_waits(counter: Counter) -> None:
    counter.propose(id="p1")
    counter.mailbox._envelopes[0].received -= STALLED_S + 1

    counter.propose(id="p2")
    answer = counter.captured.answer()
    counter.tell()

    assert answer["cause"] == "unavailable"
    assert counter.captured.answer()["code"] == "unavailable"
    assert len(counter.mailbox) == 1


async def test_keyless_agent_cannot_use_a_name_that_has_a_key(tmp_path: Path) -> None:
    counter = Counter(tmp_path, keyless=True)
    counter.settings.keyring.add("agents", "code")
    counter.settings.users()

    answer = counter.asked("code")
    counter.tell("code")
    told = counter.captured.answer()

    assert (answer["cause"], answer["agent"]) == ("malformed", "code")
    assert (told["ok"], told["code"]) == (False, "malformed")
    assert "its key" in answer["reason"]
    assert "its token" in answer["reason"]
    assert [r.agent for r in counter.refusals.take(Clock().now())] == ["unknown"]
    assert counter.asked("ops")["decision"] == "allow"


@pytest.mark.parametrize(
    "name", ["Code", "alice", "Alice", "viewer", "local", "operator", "SafetyD"]
)
async def test_keyless_agent_cannot_use_a_name_that_people_would_confuse(
    tmp_path: Path, name: str
) -> None:
    counter = Counter(tmp_path, keyless=True)
    counter.settings.keyring.add("agents", "code")
    counter.settings.keyring.add("operators", "alice")
    counter.settings.keyring.add("observers", "viewer")
    counter.settings.users()

    answer = counter.asked(name)

    assert (answer["cause"], answer["decision"]) == ("malformed", "block")
    assert counter.asked("alice2")["decision"] == "allow"


async def test_agent_with_a_key_may_have_such_a_name(tmp_path: Path) -> None:
    counter = Counter(tmp_path)
    counter.settings.keyring.add("agents", "code")
    counter.settings.users()

    assert counter.asked("Code")["decision"] == "allow"


async def test_telemetry_is_acknowledged_once_it_is_written(counter: Counter) -> None:
    counter.tell(payload=b'{"type": "outcome", "id": "p1", "ok": true}')
    before = counter.captured.said()

    (reported,) = counter.write()

    assert before == []
    answer = counter.captured.answer()
    assert answer["ok"] is True
    assert "no open action p1" in answer["note"]
    assert isinstance(reported, Reported)
    assert (reported.agent, reported.keyless) == ("code", False)


@pytest.mark.parametrize("payload", [b"{", b'{"type": "gossip"}', b'{"type": "outcome"}', b""])
async def test_malformed_telemetry_is_refused_and_counted(counter: Counter, payload: bytes) -> None:
    counter.tell(payload=payload)

    answer = counter.captured.answer()
    assert (answer["ok"], answer["code"]) == (False, "malformed")
    assert answer["error"]
    assert counter.refusals.total == {"malformed": 1}


async def test_too_much_telemetry_is_a_matter_of_rate_not_of_form(tmp_path: Path) -> None:
    counter = Counter(tmp_path, Config(rate=RateConfig(attempts_per_second=1)))
    for _ in range(4):
        counter.tell()

    counter.tell()

    assert "try again in" in counter.captured.answers()[-1]["error"]
    assert counter.refusals.total == {"rate_limit": 1}


async def test_telemetry_is_not_taken_when_it_cannot_be_written(counter: Counter) -> None:
    counter.problem = "the disk is full"

    counter.tell()

    answer = counter.captured.answer()
    assert answer == {"ok": False, "error": "the disk is full", "code": "unavailable"}
    assert counter.refusals.total == {"unavailable": 1}


async def test_names_that_are_none_have_a_rate_too(tmp_path: Path) -> None:
    counter = Counter(tmp_path, Config(rate=RateConfig(attempts_per_second=1)), keyless=True)

    causes = [counter.asked("a b")["cause"] for _ in range(6)]

    assert causes == ["malformed"] * 4 + ["rate_limit"] * 2


async def test_flood_is_not_read_and_answered_only_to_who_asks(tmp_path: Path) -> None:
    counter = Counter(tmp_path, Config(rate=RateConfig(attempts_per_second=1)), keyless=True)
    large = msgspec.json.encode({"type": "read_file", "id": "p1", "context": {"a": "x" * 60_000}})
    for _ in range(40):
        counter.propose(payload=large)
    counter.write()
    counter.captured.said()

    counter.service.propose(b"safety.v1.open.propose.code", b"", large)
    unasked = counter.captured.said()
    answer = counter.asked(payload=large)

    assert unasked == []
    assert (answer["cause"], answer["digest"]) == ("rate_limit", "")
    assert counter.refusals.total["rate_limit"] > 30


async def test_flood_of_telemetry_counts_as_one(tmp_path: Path) -> None:
    counter = Counter(tmp_path, Config(rate=RateConfig(attempts_per_second=1)), keyless=True)

    for _ in range(40):
        counter.tell(payload=b" " * 60_000)

    assert not counter.settings.keyless_gate.calm
