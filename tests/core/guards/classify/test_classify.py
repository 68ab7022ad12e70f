import pytest

from safetyd.core.action_types import Kinds, TypeConfig
from safetyd.core.guards.classify.classify import MAX_UNKNOWN
from safetyd.core.guards.classify.rule_sets import MAX_REMEMBERED, MAX_SESSIONS
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk
from safetyd.core.messages.verdict import ALLOWED, Severity
from tests.core.guards.classify.classify_rig import ClassifyRig, closed
from tests.core.guards.guard_rig import decided
from tests.story import propose


@pytest.mark.req("S2.13")
@pytest.mark.req("S3.7")
@pytest.mark.parametrize(
    "type",
    """read_file list_files read_git git_log run_tests memory_write memory_prune create_branch
    create_worktree write_log write_state embed similarity_search analyze_session
    internal_analysis draft db_read""".split(),  # noqa: SIM905
)
def test_local_and_reversible_work_passes(type: str) -> None:  # noqa: A002
    assert ClassifyRig().looks(type) is ALLOWED


@pytest.mark.req("S2.14")
@pytest.mark.req("S2.17")
@pytest.mark.parametrize("type", ["content_update", "edit_file", "create_file", "web_fetch"])
def test_medium_risk_passes(type: str) -> None:  # noqa: A002
    assert ClassifyRig().looks(type) is ALLOWED


@pytest.mark.req("S2.15")
@pytest.mark.req("S2.17")
@pytest.mark.req("S3.3")
@pytest.mark.req("S3.4")
@pytest.mark.req("S3.9")
@pytest.mark.req("S3.10")
@pytest.mark.req("S3.11")
@pytest.mark.req("S3.12")
@pytest.mark.req("S3.13")
@pytest.mark.parametrize(
    "type",
    """modify_code push create_pull_request modify_ci install_package modify_config start_service
    open_port deploy publish delete_file_outside drop_database clear_cache purchase
    billing_change revoke_token modify_permissions run_shell""".split(),  # noqa: SIM905
)
def test_high_risk_types_need_approval(type: str) -> None:  # noqa: A002
    verdict = ClassifyRig().looks(type, text="make")

    assert (verdict.decision, verdict.rule) == (Severity.ASK, "classify.high")
    assert verdict.cause == "policy"


@pytest.mark.parametrize("profile", ["strict", "coding"])
@pytest.mark.parametrize("type", ["run_shell", "bash"])
@pytest.mark.parametrize("text", ["", " \n"])
def test_shell_command_without_a_text_needs_approval(profile: str, type: str, text: str) -> None:  # noqa: A002
    rules = RulesConfig(allow_without_permission=("run_shell",))

    for rig in (ClassifyRig(profile=profile), ClassifyRig(rules, profile=profile)):
        verdict = rig.looks(type, text=text)
        assert (verdict.decision, verdict.rule) == (Severity.ASK, "classify.no_command")
        assert "run_shell is empty" in verdict.reason


@pytest.mark.req("S3.5")
@pytest.mark.req("S3.8")
@pytest.mark.parametrize(
    "type",
    """send_email send_message post_chat post_social submit_assignment create_issue
    comment""".split(),  # noqa: SIM905
)
def test_contacting_people_needs_approval(type: str) -> None:  # noqa: A002
    verdict = ClassifyRig().looks(type)

    assert (verdict.decision, verdict.rule) == (Severity.ASK, "classify.high")


@pytest.mark.req("S2.16")
@pytest.mark.req("S2.17")
@pytest.mark.parametrize("type", ["change_password", "read_credentials", "disable_security"])
def test_prohibited_types_are_blocked(type: str) -> None:  # noqa: A002
    verdict = ClassifyRig().looks(type)

    assert (verdict.decision, verdict.rule) == (Severity.BLOCK, "classify.prohibited")
    assert verdict.cause == "prohibited"


@pytest.mark.req("S3.3")
def test_prohibited_can_be_made_a_question() -> None:
    rig = ClassifyRig(RulesConfig(prohibited_means="require_confirmation"))

    verdict = rig.looks("change_password")

    assert (verdict.decision, verdict.cause) == (Severity.ASK, "prohibited")


def test_risk_and_tier_must_both_let_a_type_pass() -> None:
    rig = ClassifyRig(types={"bake": TypeConfig(tier="auto_allowed", risk="high")})

    assert rig.looks("bake").decision is Severity.ASK


def test_an_agents_own_words_raise_the_verdict() -> None:
    rig = ClassifyRig()

    assert rig.looks("read_file", risk="medium") is ALLOWED
    assert rig.looks("read_file", risk="high").decision is Severity.ASK
    verdict = rig.looks("read_file", risk="prohibited")
    assert (verdict.decision, verdict.cause) == (Severity.BLOCK, "prohibited")


def test_what_was_prohibited_anyway_is_not_put_down_to_the_agent() -> None:
    rig = ClassifyRig(types={"launch": TypeConfig(risk="prohibited", reversibility="reversible")})

    assert "agent itself" not in rig.looks("launch", reversibility="irreversible").reason
    assert "agent itself" in rig.looks("dance", risk="prohibited").reason


@pytest.mark.parametrize(
    ("type", "risk", "reversibility", "raised"),
    [
        ("push", "high", "irreversible", False),
        ("push", "low", None, False),
        ("push", None, None, False),
        ("push", "prohibited", None, True),
        ("run_shell", None, "irreversible", True),
        ("click", None, "unknown", True),
    ],
)
def test_a_kind_knows_whether_the_agent_raised_it(
    type: str,  # noqa: A002
    risk: Risk | None,
    reversibility: Reversibility | None,
    raised: bool,  # noqa: FBT001
) -> None:
    proposal = Proposal(type=type, risk=risk, reversibility=reversibility)

    assert Kinds({}, "strict").of(proposal).raised is raised


@pytest.mark.req("S0.14")
def test_an_unknown_type_needs_approval_with_the_line_that_makes_it_known() -> None:
    verdict = ClassifyRig().looks("Red File")

    assert (verdict.decision, verdict.rule) == (Severity.ASK, "classify.unknown_type")
    assert '[types.red_file] same_as = "read_file"' in verdict.reason


def test_many_unknown_types_do_not_fill_the_memory() -> None:
    rig = ClassifyRig()
    for number in range(MAX_UNKNOWN + 5):
        rig.asks(f"zzz{number}")
    rig.asks("zzz0")

    known = rig.guard.unknown_types()

    assert len(known) == MAX_UNKNOWN
    assert (known["zzz0"], known["zzz1"]) == (2, 1)
    assert MAX_REMEMBERED <= MAX_UNKNOWN


def test_known_types_and_dry_runs_are_not_remembered_as_unknown() -> None:
    rig = ClassifyRig()
    rig.asks("push")
    proposed = propose(0, type="zzz")
    rig.guard.observe(decided(proposed, rig.judges(proposed), first=False))

    assert rig.guard.unknown_types() == {}


def test_a_type_that_became_known_is_forgotten() -> None:
    before = ClassifyRig()
    before.asks("bake")
    before.asks("zzz")

    after = ClassifyRig(types={"Bake": TypeConfig(tier="auto_allowed")})
    after.guard.load(before.guard.save()())

    assert after.guard.unknown_types() == {"zzz": 1}


@pytest.mark.req("S3.7")
def test_memory_operations_beyond_the_cap_need_approval() -> None:
    rig = ClassifyRig(RulesConfig(memory_per_session=2))
    assert rig.asks("memory_write") is ALLOWED
    assert rig.asks("memory_prune") is ALLOWED

    verdict = rig.asks("memory_write")

    assert (verdict.decision, verdict.rule) == (Severity.ASK, "classify.memory_cap")


def test_memory_operations_are_counted_by_agent_and_session_until_it_closes() -> None:
    rig = ClassifyRig(RulesConfig(memory_per_session=1))
    rig.asks("memory_write")
    rig.asks("memory_write", session="s")

    assert rig.looks("memory_write", agent="ops") is ALLOWED
    assert rig.looks("memory_write", session="t") is ALLOWED
    rig.guard.observe(closed(session="s"))
    rig.guard.observe(closed(session="never"))
    rig.guard.observe(closed(agent="nobody"))
    assert rig.looks("memory_write", session="s") is ALLOWED
    assert rig.looks("memory_write").rule == "classify.memory_cap"
    rig.guard.observe(closed())
    assert rig.looks("memory_write") is ALLOWED
    assert rig.guard.save()() == ClassifyRig().guard.save()()


def test_only_allowed_memory_operations_that_count_are_counted() -> None:
    rig = ClassifyRig(RulesConfig(memory_per_session=1))
    proposed = propose(0, type="memory_write")
    asked = rig.looks("push")

    rig.guard.observe(decided(proposed, asked))
    rig.guard.observe(decided(proposed, ALLOWED, first=False))

    assert rig.looks("memory_write") is ALLOWED


def test_more_sessions_do_not_give_more_than_can_be_counted() -> None:
    rig = ClassifyRig()
    for number in range(MAX_SESSIONS):
        rig.asks("memory_write", session=f"s{number}")

    assert rig.looks("memory_write", session="one more").rule == "classify.memory_cap"
    assert rig.looks("memory_write", session="s0") is ALLOWED


def test_an_allow_given_by_others_in_one_session_too_many_takes_no_room() -> None:
    rig = ClassifyRig()
    for number in range(MAX_SESSIONS + 1):
        proposed = propose(0, type="memory_write", session=f"s{number}")
        rig.guard.observe(decided(proposed, ALLOWED))

    assert rig.looks("memory_write", session=f"s{MAX_SESSIONS}").rule == "classify.memory_cap"
