import pytest

from safetyd.core.action_types import _TYPES, MAX_REMEMBERED, Kind, Kinds, TypeConfig
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier


def kind_of(
    type: str,  # noqa: A002
    *,
    profile: str = "strict",
    risk: Risk | None = None,
    reversibility: Reversibility | None = None,
    **types: TypeConfig,
) -> Kind:
    kinds = Kinds(types, profile)
    return kinds.of(Proposal(type=type, risk=risk, reversibility=reversibility))


@pytest.mark.parametrize(
    ("type", "tier", "reversibility", "risk"),
    [
        ("read_file", "auto_allowed", "read_only", "low"),
        ("wait", "auto_allowed", "read_only", "low"),
        ("web_fetch", "auto_allowed", "read_only", "medium"),
        ("git_commit", "auto_allowed", "reversible", "low"),
        ("click", "auto_allowed", "reversible", "low"),
        ("edit_file", "auto_allowed", "reversible", "medium"),
        ("send_email", "requires_permission", "irreversible", "high"),
        ("push", "requires_permission", "irreversible", "high"),
        ("run_shell", "requires_permission", "unknown", "high"),
        ("install_package", "requires_permission", "reversible", "high"),
        ("delete_file", "requires_permission", "irreversible", "high"),
        ("modify_permissions", "requires_permission", "irreversible", "high"),
        ("read_credentials", "prohibited", "irreversible", "prohibited"),
    ],
)
def test_shipped_types_have_their_traits(
    type: str,  # noqa: A002
    tier: Tier,
    reversibility: Reversibility,
    risk: Risk,
) -> None:
    kind = kind_of(type)

    assert (kind.tier, kind.reversibility, kind.risk) == (tier, reversibility, risk)
    assert kind.known


def test_no_shipped_type_is_listed_twice() -> None:
    listed = [name for _, names in _TYPES for name in names.split()]

    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("spelling", ["read_file", "Read File", "READ-FILE", "read-File"])
def test_case_spaces_and_hyphens_do_not_matter(spelling: str) -> None:
    assert kind_of(spelling).type == "read_file"


def test_an_unknown_type_needs_approval() -> None:
    assert kind_of("Launch Rocket") == Kind(
        "launch_rocket", "requires_permission", "unknown", "high", human=False, known=False
    )


def test_an_alias_is_another_name_for_a_type() -> None:
    kinds = Kinds(
        {"Read": TypeConfig(same_as="Peek"), "peek": TypeConfig(same_as="read-file")}, "strict"
    )

    assert kinds.of(Proposal(type="READ")).type == "read_file"
    assert kinds.of(Proposal(type="READ")).read_only


def test_an_operators_type_is_known() -> None:
    kind = kind_of("bake", bake=TypeConfig(tier="auto_allowed", reversibility="reversible"))

    assert kind == Kind("bake", "auto_allowed", "reversible", "medium")


def test_a_type_without_traits_is_judged_like_an_unknown_one() -> None:
    assert kind_of("bake", bake=TypeConfig()) == Kind(
        "bake", "requires_permission", "unknown", "high"
    )


def test_risk_follows_a_changed_tier() -> None:
    kind = kind_of("run_shell", run_shell=TypeConfig(tier="auto_allowed"))

    assert (kind.tier, kind.risk) == ("auto_allowed", "medium")


def test_tier_follows_a_changed_risk() -> None:
    kind = kind_of("read_file", read_file=TypeConfig(risk="high"))

    assert (kind.tier, kind.risk) == ("requires_permission", "high")


def test_a_change_keeps_the_other_traits() -> None:
    kind = kind_of("read_file", read_file=TypeConfig(human=True))

    assert kind == Kind("read_file", "auto_allowed", "read_only", "low", human=True)


@pytest.mark.parametrize("type", ["send_email", "draft", "content_update", "create_pull_request"])
def test_text_for_people_is_prose(type: str) -> None:  # noqa: A002
    assert kind_of(type).prose


@pytest.mark.parametrize("type", ["run_shell", "click", "db_write"])
def test_commands_are_not_prose(type: str) -> None:  # noqa: A002
    assert not kind_of(type).prose


def test_the_coding_profile_lets_commands_run() -> None:
    kind = kind_of("run_shell", profile="coding")

    assert kind == Kind("run_shell", "auto_allowed", "reversible", "medium")
    assert kind_of("delete_file", profile="coding") == kind_of("delete_file")


def test_an_agent_can_raise_the_risk_and_with_it_the_tier() -> None:
    kind = kind_of("read_file", risk="high")

    assert (kind.risk, kind.tier) == ("high", "requires_permission")


def test_an_agent_cannot_lower_risk_or_reversibility() -> None:
    assert kind_of("push", risk="low", reversibility="read_only") == kind_of("push")


def test_a_raised_risk_does_not_lower_a_tier_that_the_operator_set() -> None:
    strict = TypeConfig(tier="requires_permission", risk="low")

    assert kind_of("peek", peek=strict, risk="medium").tier == "requires_permission"


def test_an_action_that_its_agent_calls_irreversible_has_high_risk() -> None:
    kind = kind_of("click", reversibility="irreversible")

    assert (kind.reversibility, kind.risk) == ("irreversible", "high")


def test_an_irreversible_action_can_have_a_higher_risk_still() -> None:
    assert kind_of("click", reversibility="irreversible", risk="prohibited").tier == "prohibited"


def test_a_read_that_an_agent_calls_reversible_is_no_longer_read_only() -> None:
    kind = kind_of("read_file", reversibility="reversible")

    assert not kind.read_only
    assert (kind.risk, kind.tier) == ("low", "auto_allowed")


def test_unknown_harm_is_not_lowered_by_saying_reversible() -> None:
    assert kind_of("run_shell", reversibility="reversible").reversibility == "unknown"
    assert kind_of("click", reversibility="unknown").reversibility == "unknown"


def test_the_kind_of_a_type_is_built_once() -> None:
    kinds = Kinds({}, "strict")

    assert kinds.of(Proposal(type="Click")) is kinds.of(Proposal(type="Click"))


def test_the_number_of_remembered_spellings_is_limited() -> None:
    kinds = Kinds({}, "strict")

    for number in range(MAX_REMEMBERED + 10):
        kinds.of(Proposal(type=f"made_up_{number}"))

    assert len(kinds._remembered) == MAX_REMEMBERED
    assert kinds.of(Proposal(type="Click")).type == "click"


@pytest.mark.parametrize("to", ["nothing", " "])
def test_an_alias_of_a_type_that_does_not_exist_is_refused(to: str) -> None:
    with pytest.raises(ValueError, match=f"types.Read: .* unknown type {to.strip()}"):
        Kinds({"Read": TypeConfig(same_as=to)}, "strict")


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_circular_aliases_are_refused(name: str) -> None:
    types = {
        "a": TypeConfig(same_as="b"),
        "b": TypeConfig(same_as="C"),
        "c": TypeConfig(same_as="b"),
    }

    with pytest.raises(ValueError, match=f"types.{name}: same_as .* is circular"):
        Kinds(types, "strict")


def test_an_alias_cannot_have_traits() -> None:
    with pytest.raises(ValueError, match=r"types.Read .* types.read_file"):
        Kinds({"Read": TypeConfig(same_as="read_file", risk="high")}, "strict")


def test_two_spellings_of_one_type_are_refused_and_every_error_is_named() -> None:
    types = {"Bake": TypeConfig(), "bake": TypeConfig(), "x": TypeConfig(same_as="y")}

    with pytest.raises(ValueError, match=r"types.bake is the same type as types.Bake.*types.x"):
        Kinds(types, "strict")


@pytest.mark.parametrize(
    "name", ["type ", " TYPE", "type\n", "ty\u200bpe", "\uff54ype", "ty\x01pe", "Type\u00a0"]
)
def test_spelling_does_not_make_another_type(name: str) -> None:
    assert Kinds({}, "strict").of(Proposal(type=name)).type == "type"
