"""What people may grant, and what they are told when they may not."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from safetyd.core.action_types import TypeConfig
from safetyd.core.approvals.approved_shapes import ENOUGH
from safetyd.core.approvals.grants import MAX_GRANTS
from safetyd.core.approvals.request import Request
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.request_events import Granted, GrantRevoked
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.messages.proposal import Tokens
from safetyd.core.policy import Policy
from safetyd.journal.commit_loop import put
from safetyd.journal.mailbox import CommandEnvelope
from safetyd.operators.commands import PLANS
from safetyd.operators.contract.grant_contract import GrantOrigin
from safetyd.operators.contract.request_contract import PendingQuestion
from safetyd.operators.reviews import Review, ReviewEnvelope
from safetyd.operators.views.grant_view import grants, suggestions
from safetyd.operators.views.request_view import pending
from tests.captured_connection import never_fails
from tests.core.approvals.grant_samples import granted
from tests.core.approvals.queue_story import QueueStory, push
from tests.core.engine.remedy_story import paused
from tests.core.text.patch_samples import unified
from tests.operators.bound_handlers import read_review, taken
from tests.story import at, propose

HOUR = {"uses": 5, "until": at(3600).isoformat()}
NOW = Moment(at(0), 0.0)


class Alice(QueueStory):
    """An operator at a screen."""

    def says(self, command: str, **fields: object) -> dict[str, Any]:
        envelope = CommandEnvelope(
            taken(PLANS, "control", command, "alice", fields), self._hear, never_fails
        )
        return self._done(envelope)

    def approves(self, *ids: str | None, **fields: object) -> list[dict[str, Any]]:
        command = read_review({"command": "approve", "ids": list(ids), **fields})
        envelopes = Review("alice", command, _waits, self._hear).envelopes()
        results: list[dict[str, Any]] = self._done(*envelopes)["results"]
        return results

    def adds(self, **fields: object) -> dict[str, Any]:
        return self.says("grant_add", **{"agent": "code", "reason": "release", **HOUR, **fields})

    def _done(self, *envelopes: CommandEnvelope[Any] | ReviewEnvelope) -> dict[str, Any]:
        for envelope in envelopes:
            self.journal += put(self.engine, envelope, NOW)
            envelope.deliver(late=False)
        return self.answer

    def _hear(self, answer: object) -> None:
        self.answer: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))

    def made(self, kind: type[Event] = Granted) -> list[Any]:
        return [event for event in self.journal if isinstance(event, kind)]


def _waits(_request: Request) -> bool:
    return False


def until(**span: float) -> str:
    end: datetime = at(0) + timedelta(**span)
    return end.isoformat()


def test_a_grant_is_made_with_all_that_was_said_and_is_listed() -> None:
    alice = Alice(Policy(types={"Ship": TypeConfig(same_as="push")}))

    answer = alice.adds(type="Ship", text="^git push", paths=["src/**"], max_usd=2)

    (made,) = alice.made()
    assert answer == {"ok": True, "id": made.id, "until": "2026-03-01T13:00:00Z"}
    assert made.id.startswith("grt_")
    (row,) = grants(alice.engine, NOW).grants
    assert msgspec.structs.asdict(row) == {
        "id": made.id,
        "agent": "code",
        "type": "push",
        "project": None,
        "rules": (),
        "text": "^git push",
        "seen": None,
        "wide": False,
        "paths": ("src/**",),
        "program": None,
        "folder": None,
        "uses": 5,
        "left": 5,
        "until": at(3600),
        "max_usd": 2.0,
        "spent_usd": 0.0,
        "reason": "release",
        "by": "alice",
        "via": "cli",
        "at": at(0),
        "request_id": None,
        "suggested": msgspec.UNSET,
    }


def test_what_is_safetyds_own_is_granted_for_one_exact_text() -> None:
    alice, named = Alice(), {"type": "run_shell", "rule": "gate.own"}
    watch = propose(0, type="run_shell", text="safetyd watch")
    other = propose(0, id="p2", type="run_shell", text="safetyd watch; safetyd stop")

    refused = [alice.adds(text=text, **named) for text in (".*", "^safetyd", "^safetyd .+$", "^$")]
    refused.append(alice.adds(paths=["/srv/**"], **named))
    made = alice.adds(text="^safetyd watch$", **named)

    assert {answer.get("code") for answer in refused} == {"not_grantable"}
    assert all("gate.own" in answer["error"] for answer in refused)
    assert made["ok"]
    assert alice.proposes(watch).triggered_rules == ("classify.high",)
    assert alice.proposes(other).triggered_rules == ("classify.high", "gate.own")


def test_two_grants_have_two_ids() -> None:
    alice = Alice()

    assert alice.adds()["id"] != alice.adds()["id"]


@pytest.mark.req("S3.3")
def test_a_block_is_lifted_by_a_grant_that_names_its_rule_with_a_reason() -> None:
    alice = Alice()
    resets: dict[str, Any] = {"type": "click", "text": "reset the form"}
    assert not alice.proposes(propose(0, id="p1", **resets)).allowed

    alice.adds(rule="gate.blocklist:reset", text="^reset the form$")

    assert alice.proposes(propose(1, id="p2", **resets)).allowed
    (made,) = alice.made()
    assert (made.by, made.reason) == ("alice", "release")


NAMED = {"rule": "gate.blocklist:reset", "text": "^x"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"agent": "a b"}, "'a b'"),
        ({"reason": " "}, "reason"),
        ({"reason": "..."}, "reason"),
        ({"via": "sms"}, "command line"),
        ({"type": "send_email"}, "send_email"),
        ({"type": "change_auth"}, "change_auth"),
        ({"rule": "gate.blocklist:reset"}, "pattern"),
        ({**NAMED, "rule": "gate.loop"}, "gate.loop"),
        ({**NAMED, "rule": "budget.day"}, "budget.day"),
        ({**NAMED, "uses": 21}, "20 uses"),
        ({**NAMED, "until": until(hours=24, seconds=1)}, "24 hours"),
        ({"until": until(days=7, seconds=1)}, "7 days"),
        ({"until": until()}, "past"),
        ({"text": "("}, "the text "),
        ({"text": ""}, "the text "),
        ({"paths": ["*a" * 512] * 32}, "the globs are too many or too long"),
    ],
)
def test_what_cannot_be_granted_is_refused_with_the_reason(
    fields: dict[str, object], why: str
) -> None:
    alice = Alice()

    answer = alice.adds(**fields)

    assert (answer["ok"], answer["code"]) == (False, "not_grantable")
    assert why in answer["error"]
    assert alice.made() == []


@pytest.mark.parametrize(
    "fields",
    [
        {**NAMED, "uses": 20, "until": until(hours=24)},
        {"rule": "classify.prohibited", "type": "change_auth", "paths": ["/etc/x"]},
        {"until": until(days=7)},
    ],
)
def test_the_bounds_themselves_may_be_granted(fields: dict[str, object]) -> None:
    assert Alice().adds(**fields)["ok"]


@pytest.mark.parametrize(
    "fields", [{"uses": 0}, {"uses": 1001}, {"until": "2026-03-01T13:00:00"}, {"max_usd": -1}]
)
def test_what_makes_no_sense_is_refused_before_its_turn_comes(fields: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        Alice().adds(**fields)


def test_too_many_grants_are_refused() -> None:
    alice = Alice()
    alice.happens(*(granted(id=f"grt_{n}") for n in range(MAX_GRANTS)))

    assert str(MAX_GRANTS) in alice.adds()["error"]


def test_a_grant_is_revoked_once() -> None:
    alice = Alice()
    made = alice.adds()["id"]

    assert alice.says("grant_revoke", id=made, reason="done") == {"ok": True, "id": made, "left": 5}
    assert alice.says("grant_revoke", id=made)["code"] == "not_found"

    (revoked,) = alice.made(GrantRevoked)
    assert (revoked.by, revoked.reason, revoked.agent) == ("alice", "done", "code")


def test_an_approval_may_permit_the_same_for_a_while() -> None:
    alice = Alice()
    asked = alice.proposes(push(0, project="web"))

    (result,) = alice.approves(asked.request_id, grant=HOUR)

    (made,) = alice.made()
    assert (result["ok"], result["decision"], result["grant"]) == (True, "approved", made.id)
    assert (made.type, made.project, made.rules) == ("push", "web", ("classify.high",))
    assert made.request_id == asked.request_id
    assert not made.wide
    assert alice.asks(2, "p3", project="web", session="another", rationale="again").allowed
    assert alice.asks(3, "p4", project="web").allowed, "the approval itself is for one of these"
    others: list[dict[str, Any]] = [
        {"text": "git push tags"},
        {"paths": ("a",)},
        {"cost_usd": 1.0},
        {"tokens": Tokens(input=1)},
        {"project": None},
    ]
    for number, other in enumerate(others):
        asks = {"project": "web", **other}
        assert alice.asks(4, f"q{number}", **asks).status == "pending", other


def test_who_gives_a_pattern_permits_what_matches_it() -> None:
    alice = Alice()
    asked = alice.proposes(push(0, project="web"))

    alice.approves(asked.request_id, grant={**HOUR, "text": "^git push [a-z]+$"})

    (made,) = alice.made()
    assert (made.wide, made.seen) == (False, None)
    assert alice.asks(2, "p3", text="git push tags", project="web").allowed
    assert alice.asks(3, "p4", text="git push --force", project="web").status == "pending"


def test_the_answers_to_many_of_one_kind_make_one_grant() -> None:
    alice = Alice()
    ids = [alice.asks(n, f"p{n}", text=f"git push {n}").request_id for n in range(3)]

    results = alice.approves(*ids, grant={**HOUR, "text": "^git push [0-9]$"})

    assert len({result["grant"] for result in results}) == 1
    assert len(alice.made()) == 1


def test_a_rule_about_paths_is_granted_for_the_paths_that_were_shown() -> None:
    alice = Alice()
    asked = alice.proposes(propose(0, paths=("/home/a/.env",)))

    alice.approves(asked.request_id, grant=HOUR)

    assert alice.proposes(propose(1, id="p3", paths=("/home/a/.env",), session="2")).allowed
    assert alice.proposes(propose(1, id="p4", paths=("/home/a/.env",))).allowed
    other = alice.proposes(propose(2, id="p2", paths=("/home/a/.ssh/id_rsa",)))
    assert other.status == "pending"


def test_a_rule_about_paths_is_granted_for_the_files_of_a_patch_that_were_shown() -> None:
    alice = Alice()
    edit: dict[str, Any] = {
        "type": "edit_file",
        "context": {"diff": unified("a/.envrc", "b/.envrc")},
    }
    asked = alice.proposes(propose(0, **edit))

    alice.approves(asked.request_id, grant=HOUR)

    assert [grant.paths for grant in alice.made()] == [(".envrc",)]
    assert alice.proposes(propose(1, id="p2", session="2", **edit)).allowed
    assert alice.proposes(propose(1, id="p3", session="3", **edit)).allowed


ASKING = Policy(rules=RulesConfig(prohibited_means="require_confirmation"))


@pytest.mark.req("S3.5")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"type": "send_email"}, "send_email"),
        ({"type": "change_auth"}, "change_auth"),
        ({"type": "edit_file", "risk": "high"}, "edit_file"),
        ({"type": "read_file", "paths": ("**/.env",)}, "--path"),
    ],
)
def test_what_cannot_be_granted_stays_unanswered(fields: dict[str, Any], why: str) -> None:
    alice = Alice(ASKING)
    asked = alice.proposes(propose(0, **fields))
    assert asked.status == "pending"

    (result,) = alice.approves(asked.request_id, grant=HOUR)

    assert (result["ok"], result["code"]) == (False, "not_grantable")
    assert why in result["error"]
    assert alice.request(asked.request_id).pending
    assert alice.made() == []


def test_a_link_or_a_message_makes_no_grant() -> None:
    alice = Alice()
    asked = alice.asks(0)

    (result,) = alice.approves(asked.request_id, grant=HOUR, via="link")

    assert result["code"] == "not_grantable"


def test_an_end_of_a_pause_and_a_mere_ask_permit_nothing_more() -> None:
    alice = Alice()
    mere = alice.proposes(propose(0, type="read_file"), permission=True)
    alice.happens(paused(1.0, "anomaly"))
    _, unpause = alice.engine.approvals.pending()

    results = alice.approves(mere.request_id, unpause.id, grant=HOUR)

    assert [result["code"] for result in results] == ["not_grantable"] * 2


def test_a_grant_that_is_over_is_not_listed() -> None:
    alice = Alice()
    alice.adds()

    over = grants(alice.engine, Moment(at(3600), 3600.0))

    assert (over.grants, over.left_out) == ((), 0)


def test_suggestions_come_with_their_evidence() -> None:
    alice = Alice()
    for n in range(5):
        asked = alice.asks(n, f"p{n}")
        alice.approves(asked.request_id)
        assert alice.asks(n, f"q{n}").allowed

    (row,) = suggestions(alice.engine, NOW).suggestions

    assert (row.then, row.approved, row.denied) == ("allow", 5, 0)
    assert row.toml.splitlines() == [
        "[[rules.custom]]",
        'name = "allow_code_push_16f880"',
        (
            'when = { types = ["push"], agents = ["code"], text = "(?-i)^git push origin main$", '
            "only_text = true }"
        ),
        'then = "allow"',
        'reason = "approved 5 times and never denied"',
    ]


def runs(number: int, text: str, **fields: object) -> Proposed:
    return propose(number, type="run_shell", id=f"r{number}", text=text, **fields)  # type: ignore[arg-type]


def test_a_grant_from_a_command_covers_its_shape_and_no_more() -> None:
    alice = Alice(Policy(profile="coding"))
    asked = alice.proposes(runs(0, "acmectl lint src/a.py", project="web"))

    alice.approves(asked.request_id, grant=HOUR)

    (made,) = alice.made()
    assert made.seen.words == "acmectl lint <a path in the project>"
    assert alice.proposes(runs(1, "acmectl lint src/b.py", project="web")).allowed
    others = ("acmectl lint src/b.py --fix", "acmectl rm src/b.py", "acmectl lint /etc/b.py")
    for number, text in enumerate((*others, "git push --force", "sudo ls", "acmectl lint .env")):
        assert not alice.proposes(runs(10 + number, text, project="web")).allowed, text
    assert alice.proposes(runs(20, "acmectl lint src/b.py")).status == "pending", "no project"


def test_an_unknown_program_may_be_granted_with_its_verb_in_a_session() -> None:
    alice = Alice(Policy(profile="coding"))
    asked = alice.proposes(runs(0, "acmectl lint src/a.py", session="s1"))

    alice.approves(asked.request_id, grant={**HOUR, "program": True, "session": True})

    (made,) = alice.made()
    assert (made.program, made.session, made.wide) == ("acmectl lint", "s1", False)
    again = "cd src && acmectl lint --all a.py | head -5"
    assert alice.proposes(runs(1, again, session="s1", cwd="/srv")).allowed
    assert alice.proposes(runs(2, again, session="s2")).status == "pending"
    others = ("acmectl rm a", "acmectl lint a; git push", "acmectl lint a > /etc/x", "git push")
    for number, text in enumerate(others):
        assert not alice.proposes(runs(10 + number, text, session="s1")).allowed, text
    assert not alice.proposes(runs(20, again, session="s1", remote="x")).allowed


def test_where_work_is_asked_about_a_program_is_granted_alone() -> None:
    alice = Alice()
    asked = alice.proposes(runs(0, "acmectl lint a"))

    alice.approves(asked.request_id, grant={**HOUR, "program": True})

    assert alice.proposes(runs(1, "acmectl lint b")).allowed
    assert alice.proposes(runs(2, "acmectl lint b; touch c")).status == "pending"
    other = alice.proposes(propose(3, type="push", id="p3", text="acmectl lint b"))
    assert other.status == "pending"


def test_what_is_not_one_unknown_program_is_not_granted_as_one() -> None:
    alice = Alice(Policy(profile="coding"))
    ids = [alice.proposes(runs(n, t)).request_id for n, t in enumerate(("git push", "a b; c d"))]
    beside = runs(2, "acmectl lint a", context={"note": "and more"})
    ids.append(alice.proposes(beside).request_id)

    results = [alice.approves(i, grant={**HOUR, "program": True})[0] for i in ids]

    assert [result["ok"] for result in results] == [False, False, False]
    assert alice.made() == []


def test_a_request_offers_what_a_grant_would_cover_with_what_was_answered_before() -> None:
    alice = Alice(Policy(profile="coding"))
    before = [alice.proposes(runs(n, f"acmectl lint {n}/a.py")).request_id for n in range(3)]
    alice.approves(*before[:2])
    alice.answers(5, before[2], "denied")

    alice.proposes(runs(9, "acmectl lint src/a.py"))
    alice.proposes(push(10))

    command, other = pending(alice.engine, NOW, PendingQuestion()).requests
    assert msgspec.to_builtins(command.grant) == {
        "shape": "acmectl lint <a path in the project>",
        "approved": 2,
        "denied": 1,
        "program": "acmectl lint",
    }
    assert other.grant is msgspec.UNSET


def restarted(times: int = ENOUGH, policy: Policy | None = None) -> Alice:
    """Return an operator who approved one command many times."""
    alice = Alice(policy or Policy(profile="coding"))
    for t in range(times):
        text = "acmectl restart 3"
        asked = alice.proposes(propose(t, id=f"r{t}", type="run_shell", text=text))
        alice.answers(t, asked.request_id, waits=True)
    return alice


@pytest.mark.req("S3.56", "S3.61")
def test_a_suggested_grant_is_made_as_it_is_shown_and_says_where_it_came_from() -> None:
    alice = restarted()
    row, *others = suggestions(alice.engine, NOW).suggestions
    terms = row.grant
    assert terms is not None
    assert (row.command, row.approved) == (f"safetyd suggestions apply {row.id}", ENOUGH)
    assert [other.then for other in others] == ["allow"], "a row for the table of programs"

    answer = alice.says("suggestion_apply", id=row.id)

    (made,) = alice.made()
    assert answer == {"ok": True, "id": made.id, "until": "2026-03-31T12:00:00Z"}
    shown = (terms.agent, terms.type, terms.project, terms.text, terms.rules, terms.uses)
    assert (made.agent, made.type, made.project, made.text, made.rules, made.uses) == shown
    assert (terms.shape, made.until) == ("acmectl restart 3", terms.until)
    assert (made.by, made.via, made.reason) == ("alice", "cli", "approved 10 times since 01 Mar")
    (listed,) = grants(alice.engine, NOW).grants
    assert listed.suggested == GrantOrigin(suggestion=row.id, approved=ENOUGH, since=at(0))
    assert alice.says("suggestion_apply", id=row.id)["code"] == "not_found"


def test_a_suggestion_that_changed_or_comes_from_a_message_is_not_made() -> None:
    alice = restarted()
    row = suggestions(alice.engine, NOW).suggestions[0]

    by_link = alice.says("suggestion_apply", id=row.id, via="link:email")
    asked = alice.proposes(propose(99, id="x", type="run_shell", text="acmectl restart 3"))
    alice.answers(99, asked.request_id, "denied")
    late = alice.says("suggestion_apply", id=row.id)

    assert (by_link["code"], late["code"]) == ("not_grantable", "not_found")
    assert "no longer suggested" in late["error"]
    assert alice.made() == []


def test_a_rule_is_not_suggested_for_what_a_suggested_grant_covers() -> None:
    alice = Alice()
    for t in range(ENOUGH):
        asked = alice.proposes(propose(t, id=f"r{t}", type="modify_config", text="x"))
        alice.answers(t, asked.request_id, waits=True)
        thens = [row.then for row in suggestions(alice.engine, NOW).suggestions]
        assert thens == ([] if t < 4 else ["allow"] if t < ENOUGH - 1 else ["grant"])
