"""What grants allow, what they do not, and how they end."""

from typing import Any

import pytest

from safetyd.core.approvals.grants import MAX_GRANTS, MAX_PER_TICK
from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.guard_events import Paused, SafeModeEntered
from safetyd.core.events.request_events import GrantEnded, GrantRevoked, GrantUsed
from safetyd.core.guards.gate import default_patterns as shipped
from safetyd.core.guards.projects import ProjectConfig, ProjectGate
from safetyd.core.guards.rules import CustomRule, RulesConfig, When
from safetyd.core.messages.proposal import Observation, Target
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Policy
from tests.core.approvals.grant_samples import granted
from tests.core.approvals.queue_story import QueueStory, push
from tests.core.text.patch_samples import unified
from tests.story import at, propose, stop, tick

RESET = "gate.blocklist:reset"
FREEZE = CustomRule(name="freeze", when=When(types=("deploy",)), then=Severity.BLOCK)


def resets(t: float, id: str = "p1", **fields: object) -> Proposed:  # noqa: A002
    """Propose text on the blocklist, of a type that is allowed."""
    fields = {"text": "reset the form", **fields}
    return propose(t, id=id, type="click", **fields)  # type: ignore[arg-type]


def told(queue: QueueStory, kind: str) -> list[SafetyEvent]:
    return [e for e in queue.journal if isinstance(e, SafetyEvent) and e.event_type == kind]


def test_a_granted_kind_passes_unasked_and_says_which_grant_let_it() -> None:
    queue = QueueStory()
    queue.happens(granted(type="push"))

    decision = queue.asks(1)

    assert (decision.decision, decision.status) == (Severity.ALLOW, "final")
    assert decision.reason == "permitted by grt_1"
    assert not decision.claim_required
    decided = next(e for e in queue.journal if isinstance(e, Decided))
    assert decided.grants == ("grt_1",)


def test_every_use_is_counted_and_reported_until_none_is_left() -> None:
    queue = QueueStory()
    queue.happens(granted(uses=2))

    allowed = [queue.asks(n, f"p{n}", text=f"git push {n}").allowed for n in range(1, 4)]

    assert allowed == [True, True, False]
    used = [e for e in queue.journal if isinstance(e, GrantUsed)]
    assert [(e.id, e.left) for e in used] == [("p1", 1), ("p2", 0)]
    assert [e.metadata["grant"] for e in told(queue, "GRANT_USED")] == ["grt_1", "grt_1"]
    assert len(told(queue, "GRANT_CREATED")) == 1
    assert queue.engine.grants.live() == []


def test_a_repeated_id_uses_a_grant_once() -> None:
    queue = QueueStory()
    queue.happens(granted(uses=2))

    assert queue.asks(1).allowed
    assert queue.asks(2).allowed

    grant = queue.engine.grants.find("grt_1")
    assert grant is not None
    assert grant.left == 1


def test_what_is_refused_for_another_reason_uses_no_grant() -> None:
    queue = QueueStory()
    queue.happens(granted(), stop(1))

    assert queue.asks(2).cause == "stopped"

    assert queue.engine.grants.live()[0].used == 0


def test_a_grant_is_over_at_its_end_even_before_anybody_says_so() -> None:
    queue = QueueStory()
    queue.happens(granted(until=at(60)))

    assert queue.asks(59, "p1", text="a").allowed
    assert queue.asks(60, "p2", text="b").status == "pending"

    assert any(isinstance(e, GrantEnded) for e in queue.happens(tick(61)))
    assert queue.engine.grants.live() == []


def test_of_many_that_are_over_one_tick_ends_some() -> None:
    queue = QueueStory()
    for n in range(MAX_PER_TICK + 1):
        queue.happens(granted(id=f"grt_{n}", until=at(60)))
    queue.happens(GrantRevoked(at=at(1), t=1, grant="grt_0", agent="code", by="alice"))

    queue.happens(tick(61))
    assert queue.engine.grants.live() == []
    assert not any(isinstance(e, GrantEnded) for e in queue.happens(tick(62)))


def test_a_revoked_grant_lets_nothing_pass() -> None:
    queue = QueueStory()
    revoked = GrantRevoked(at=at(1), t=1, grant="grt_1", agent="code", by="bob", reason="enough")
    queue.happens(granted(), granted(id="grt_2", agent="ops"), revoked, revoked)

    assert queue.asks(2).status == "pending"

    assert [e.reason for e in told(queue, "GRANT_REVOKED")] == ["enough", "enough"]
    assert [grant.made.id for grant in queue.engine.grants.live()] == ["grt_2"]


def test_a_use_of_what_was_revoked_meanwhile_changes_nothing() -> None:
    queue = QueueStory()

    queue.happens(GrantUsed(at=at(1), t=1, grant="grt_9", agent="code", id="p1", left=0))

    assert queue.engine.grants.live() == []


def test_a_grant_is_for_one_agent_and_one_type() -> None:
    queue = QueueStory()
    queue.happens(granted(type="deploy"))

    assert queue.asks(1).status == "pending"
    assert queue.proposes(propose(2, "ops", "p2", "deploy")).status == "pending"
    assert queue.proposes(propose(3, "code", "p3", "deploy")).allowed


def test_all_words_must_match_the_text() -> None:
    queue = QueueStory()
    queue.happens(granted(text="^git push origin"))

    assert queue.asks(1).allowed
    assert queue.asks(2, "p2", text="git push evil").status == "pending"
    assert queue.asks(3, "p3", target=Target(label="evil")).status == "pending"
    assert queue.asks(4, "p4", target=Target(label="git push origin")).allowed


@pytest.mark.parametrize(
    ("paths", "allowed"),
    [
        (("src/a.py",), True),
        (("src/a.py", "src/deep/b.py"), True),
        (("src/a.py", "setup.py"), False),
        (("src/../setup.py",), False),
        (("$HOME/src/a.py",), False),
        ((), False),
    ],
)
def test_all_paths_must_match_the_globs(paths: tuple[str, ...], allowed: bool) -> None:  # noqa: FBT001
    queue = QueueStory()
    queue.happens(granted(paths=("src/**",)))

    assert queue.proposes(propose(1, type="modify_code", paths=paths)).allowed is allowed


def test_a_grant_for_paths_covers_no_command_by_the_targets_of_its_links() -> None:
    queue = QueueStory()
    queue.happens(granted(type="run_shell", paths=("src/**",)))
    linked = propose(1, type="run_shell", text="cat a ../b && make", resolved=("src/a",))

    assert not queue.proposes(linked).allowed


def test_a_sensitive_path_is_lifted_only_by_a_grant_that_names_paths() -> None:
    queue = QueueStory()
    queue.happens(granted())
    reads: dict[str, Any] = {"type": "read_file", "paths": ("/home/a/.env",)}

    assert queue.proposes(propose(1, id="p1", **reads)).status == "pending"
    queue.happens(granted(2, "grt_2", paths=("/home/a/.env",)))
    assert queue.proposes(propose(3, id="p3", **{**reads, "type": "search"})).allowed


def test_a_grant_for_paths_must_match_where_they_lead() -> None:
    queue = QueueStory()
    queue.happens(granted(paths=("docs/**",)))
    reads: dict[str, Any] = {"paths": ("docs/a",), "resolved": ("/home/a/.env",)}

    assert queue.proposes(propose(1, id="p1", **reads)).status == "pending"
    queue.happens(granted(2, "grt_2", paths=("docs/**", "/home/a/.env")))
    assert queue.proposes(propose(3, id="p3", **{**reads, "type": "search"})).allowed


def test_a_grant_for_paths_must_match_where_the_folder_of_the_proposal_puts_them() -> None:
    queue = QueueStory(Policy(projects={"web": ProjectConfig(root="/srv/web")}))
    queue.happens(granted(paths=("src/**",), uses=9))
    makes: dict[str, Any] = {"type": "modify_code", "paths": ("src/x",)}

    assert queue.proposes(propose(1, id="p1", **makes, project="web", cwd="/srv/web")).allowed
    assert not queue.proposes(propose(2, id="p2", **makes, project="web", cwd="lib")).allowed
    assert not queue.proposes(propose(3, id="p3", **makes, cwd="/opt")).allowed


def test_a_grant_for_paths_must_match_the_files_of_a_patch_that_can_be_read() -> None:
    queue = QueueStory()
    queue.happens(granted(paths=("src/**", ".envrc")))

    def allowed(n: int, path: str, cut: int = 0) -> bool:
        patch = unified(f"a/{path}", f"b/{path}")
        context = {"diff": patch[: len(patch) - cut]}
        fields: dict[str, Any] = {"type": "modify_code", "paths": ("src/x",), "context": context}
        return queue.proposes(propose(n, id=f"p{n}", **fields)).allowed

    assert allowed(1, "src/y")
    assert allowed(2, ".envrc")
    assert not allowed(3, "lib/y")
    assert not allowed(4, "src/y", cut=3)


@pytest.mark.parametrize("mode", ["100755", "120000"])
def test_a_mode_is_lifted_only_by_a_grant_that_names_paths(mode: str) -> None:
    queue = QueueStory()
    queue.happens(granted())
    diff = f"diff --git a/run.sh b/run.sh\nnew file mode {mode}\n"
    fields: dict[str, Any] = {"type": "edit_file", "context": {"diff": diff}}

    assert queue.proposes(propose(1, id="p1", **fields)).status == "pending"
    queue.happens(granted(2, "grt_2", paths=("run.sh",)))
    assert queue.proposes(propose(3, id="p3", **{**fields, "type": "create_file"})).allowed


def test_all_uses_together_cost_no_more_than_was_granted() -> None:
    queue = QueueStory()
    queue.happens(granted(max_usd=1.0))

    def pushed(n: int, **fields: object) -> bool:
        return queue.asks(n, f"p{n}", text=f"git push {n}", **fields).allowed

    assert pushed(1, cost_usd=0.6)
    assert not pushed(2, cost_usd=0.5)
    assert not pushed(3), "it may cost anything"
    priced = push(4, "p4", text="git push 4")
    priced.priced_nano = 400_000_000
    assert queue.proposes(priced).allowed


def test_no_grant_lets_an_agent_contact_a_person() -> None:
    queue = QueueStory()
    queue.happens(granted(), granted(id="grt_2", rules=("classify.high",), text="."))

    assert queue.proposes(propose(1, type="send_email", text="hello")).status == "pending"


def test_what_the_agent_itself_calls_worse_is_not_covered() -> None:
    queue = QueueStory()
    queue.happens(granted())

    raised = propose(1, type="edit_file", reversibility="irreversible")

    assert queue.proposes(raised).status == "pending"


@pytest.mark.parametrize(
    "held",
    [
        stop(1),
        Paused(at=at(1), t=1, agent="code", source="operator", by="alice"),
        SafeModeEntered(at=at(1), t=1, by="alice", agent="code"),
    ],
)
def test_no_grant_lifts_a_hold(held) -> None:
    queue = QueueStory()
    queue.happens(granted(rules=(RESET,), text="."), granted(id="grt_2"), held)

    assert queue.proposes(resets(2)).decision is Severity.BLOCK


def test_only_a_grant_that_names_the_rule_lifts_a_block() -> None:
    queue = QueueStory()
    queue.happens(granted(), granted(id="grt_2", rules=(RESET,), request_id="req_1", type="click"))

    assert queue.proposes(resets(1)).triggered_rules == (RESET,)
    queue.happens(granted(2, "grt_3", rules=(RESET,), text="^reset the form$"))
    assert queue.proposes(resets(3, "p2")).reason == "permitted by grt_3"
    assert not queue.proposes(resets(4, "p3", text="reset the form and delete it")).allowed


def test_every_rule_that_blocks_must_be_lifted() -> None:
    queue = QueueStory()
    both = {"text": "delete or reset"}
    queue.happens(granted(rules=(RESET,), text="."))

    assert queue.proposes(resets(1, "p1", **both)).decision is Severity.BLOCK
    queue.happens(granted(2, "grt_2", rules=("gate.blocklist:delete",), text="."))
    assert queue.proposes(resets(3, "p2", **both)).reason == "permitted by grt_2 and grt_1"


def test_a_lifted_block_uncovers_what_it_hid() -> None:
    queue = QueueStory()
    queue.happens(granted(rules=(RESET,), text="."))

    asked = queue.proposes(resets(1, text="reset and submit"))

    assert (asked.status, asked.triggered_rules) == ("pending", ("gate.irreversible:submit",))


def test_no_grant_lifts_a_loop() -> None:
    queue = QueueStory()
    queue.happens(granted(rules=(RESET,), text="."))
    home = Observation(window_title="Home")

    allowed = [queue.proposes(resets(n, f"p{n}", observation=home)).allowed for n in range(3)]

    assert allowed == [True, True, False]
    assert queue.final("p2").cause == "loop"


def test_a_lifted_block_of_a_command_leaves_the_question() -> None:
    queue = QueueStory()
    queue.happens(granted(rules=(RESET,), text="^git reset --soft", uses=1))
    command: dict[str, Any] = {"type": "run_shell", "text": "git reset --soft HEAD~1"}

    asked = queue.proposes(propose(1, id="p1", **command))
    assert (asked.status, asked.triggered_rules) == ("pending", ("classify.high",))
    assert queue.engine.grants.live()[0].used == 0

    final = queue.answers(2, asked.request_id, waits=True)
    assert final.allowed
    assert queue.engine.grants.live() == [], "the allow used it"


def test_an_approval_does_not_outlive_the_grant_that_it_needs() -> None:
    queue = QueueStory()
    queue.happens(granted(rules=(RESET,), text="^git reset --soft", until=at(60)))
    command: dict[str, Any] = {"type": "run_shell", "text": "git reset --soft HEAD~1"}
    asked = queue.proposes(propose(1, id="p1", **command))

    final = queue.answers(61, asked.request_id)

    assert final.decision is Severity.BLOCK


@pytest.mark.parametrize("means", ["block", "require_confirmation"])
def test_a_prohibited_type_is_lifted_only_by_name(means: Any) -> None:
    queue = QueueStory(Policy(rules=RulesConfig(prohibited_means=means)))
    queue.happens(granted(type="change_password"))
    changes: dict[str, Any] = {"type": "change_password", "text": "for bob"}

    assert queue.proposes(propose(1, id="p1", **changes)).decision == means
    queue.happens(granted(2, "grt_2", rules=("classify.prohibited",), text="^for bob$"))
    assert queue.proposes(propose(3, id="p2", **changes)).allowed


def test_a_rule_that_is_lifted_leaves_what_the_table_says() -> None:
    queue = QueueStory(Policy(rules=RulesConfig(custom=(FREEZE,))))
    queue.happens(granted(rules=("rules.freeze",), text="^hotfix$"))

    asked = queue.proposes(propose(1, type="deploy", text="hotfix"))

    assert (asked.status, asked.triggered_rules) == ("pending", ("classify.high",))


def test_a_lifted_rule_is_lifted_in_a_project_as_well_and_others_of_it_are_not() -> None:
    tighter = ProjectGate(blocklist_patterns=("scrub", *shipped.BLOCKLIST))
    queue = QueueStory(Policy(projects={"shop": ProjectConfig(gate=tighter)}))
    queue.happens(granted(rules=(RESET,), text="."))

    assert queue.proposes(resets(1, "p1", project="shop")).allowed
    scrubbed = queue.proposes(resets(2, "p2", project="shop", text="reset and scrub"))
    assert scrubbed.triggered_rules == ("gate.blocklist:custom_1",)


def test_a_grant_made_from_a_request_lifts_what_was_shown_in_its_project() -> None:
    queue = QueueStory()
    shown = ("classify.high", "gate.confidence")
    queue.happens(granted(rules=shown, request_id="req_1", type="push", project="web"))

    assert queue.asks(1, "p1", project="web", confidence=0.1).allowed
    assert queue.asks(2, "p2", project="shop").status == "pending"
    assert queue.asks(3, "p3").status == "pending"
    pays = queue.asks(4, "p4", project="web", target=Target(label="pay"))
    assert pays.triggered_rules == ("gate.irreversible:pay",)


def test_an_agent_that_asks_for_a_person_gets_one_whatever_is_granted() -> None:
    queue = QueueStory()
    queue.happens(granted())

    asked = queue.proposes(push(1), permission=True)

    assert (asked.status, asked.triggered_rules) == ("pending", ("approvals.asked",))


def test_grants_are_bounded() -> None:
    engine = Engine(Policy())
    for n in range(MAX_GRANTS):
        assert not engine.grants.full
        engine.handle(granted(id=f"grt_{n}"))

    assert engine.grants.full
