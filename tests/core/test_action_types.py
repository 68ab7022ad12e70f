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


@pytest.mark.parametrize(
    ("type", "change", "traits"),
    [
        (
            "bake",
            TypeConfig(tier="auto_allowed", reversibility="reversible"),
            ("auto_allowed", "reversible", "medium"),
        ),
        # Without traits a type is judged like an unknown one.
        ("bake", TypeConfig(), ("requires_permission", "unknown", "high")),
        # Risk and tier follow each other; other traits stay.
        ("run_shell", TypeConfig(tier="auto_allowed"), ("auto_allowed", "unknown", "medium")),
        ("read_file", TypeConfig(risk="high"), ("requires_permission", "read_only", "high")),
        ("read_file", TypeConfig(human=True), ("auto_allowed", "read_only", "low")),
    ],
)
def test_an_operator_can_add_and_change_types(
    type: str,  # noqa: A002
    change: TypeConfig,
    traits: tuple[Tier, Reversibility, Risk],
) -> None:
    kind = Kinds({type: change}, "strict").of(Proposal(type=type))

    assert (kind.tier, kind.reversibility, kind.risk) == traits
    assert kind.human is bool(change.human)
    assert kind.known


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


@pytest.mark.parametrize(
    ("type", "risk", "reversibility", "traits"),
    [
        ("read_file", "high", None, ("requires_permission", "read_only", "high")),
        ("read_file", None, "reversible", ("auto_allowed", "reversible", "low")),
        ("click", None, "unknown", ("auto_allowed", "unknown", "low")),
        ("click", None, "irreversible", ("requires_permission", "irreversible", "high")),
        ("click", "prohibited", "irreversible", ("prohibited", "irreversible", "prohibited")),
        # Nothing is lowered, and unknown harm is not reversible because an agent says so.
        ("push", "low", "read_only", ("requires_permission", "irreversible", "high")),
        ("run_shell", None, "reversible", ("requires_permission", "unknown", "high")),
    ],
)
def test_an_agent_can_only_raise_the_traits_of_a_type(
    type: str,  # noqa: A002
    risk: Risk | None,
    reversibility: Reversibility | None,
    traits: tuple[Tier, Reversibility, Risk],
) -> None:
    kind = kind_of(type, risk=risk, reversibility=reversibility)

    assert (kind.tier, kind.reversibility, kind.risk) == traits


def test_a_raised_risk_does_not_lower_a_tier_that_the_operator_set() -> None:
    strict = TypeConfig(tier="requires_permission", risk="low")

    assert kind_of("peek", peek=strict, risk="medium").tier == "requires_permission"


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

    with pytest.raises(ValueError, match=r"types.bake .*types.Bake.*types.x"):
        Kinds(types, "strict")


@pytest.mark.parametrize(
    "name", ["type ", " TYPE", "type\n", "ty\u200bpe", "\uff54ype", "ty\x01pe", "Type\u00a0"]
)
def test_spelling_does_not_make_another_type(name: str) -> None:
    assert Kinds({}, "strict").of(Proposal(type=name)).type == "type"
