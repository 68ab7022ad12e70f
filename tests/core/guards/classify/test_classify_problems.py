import msgspec
import pytest

from safetyd.core.action_types import Kinds, TypeConfig
from safetyd.core.guards.classify.rule_checks import file_problems, problems
from safetyd.core.guards.projects import ProjectConfig, ProjectSettings
from safetyd.core.guards.rules import CustomRule, ProjectRules, RulesConfig, When
from safetyd.core.messages.verdict import Severity
from tests.core.guards.classify.classify_rig import custom, rule

ALLOW, ASK, BLOCK = Severity.ALLOW, Severity.ASK, Severity.BLOCK


def wrong(
    rules: RulesConfig | None = None,
    projects: dict[str, ProjectConfig] | None = None,
    **types: TypeConfig,
) -> list[tuple[str, str]]:
    return problems(rules or RulesConfig(), projects or {}, Kinds(types, "strict"))


def named(rules: RulesConfig | None, projects: dict[str, ProjectConfig] | None = None) -> list[str]:
    return [key for key, _ in wrong(rules, projects)]


def test_the_defaults_are_right() -> None:
    assert wrong() == []
    assert wrong(None, {"web": ProjectConfig(root="/srv/web")}) == []


def test_rules_are_read_from_a_table() -> None:
    table = {
        "allow_without_permission": ["push"],
        "custom": [
            {
                "name": "maintenance_window",
                "when": {"types": ["deploy"], "hours": "22:00-06:00", "modes": ["production"]},
                "then": "block",
                "reason": "Deployments wait for the morning",
            }
        ],
    }

    rules = msgspec.convert(table, RulesConfig)

    assert wrong(rules) == []
    assert rules.custom == (
        CustomRule(
            name="maintenance_window",
            when=When(types=("deploy",), hours="22:00-06:00", modes=("production",)),
            then=BLOCK,
            reason="Deployments wait for the morning",
        ),
    )


@pytest.mark.parametrize("table", [{"allow": []}, {"memory_per_session": -1}, {"custom": [{}]}])
def test_a_table_of_another_shape_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(table, RulesConfig)


@pytest.mark.req("S3.14")
@pytest.mark.req("S3.15")
def test_a_type_is_not_both_allowed_and_required() -> None:
    rules = RulesConfig(
        allow_without_permission=("Read File", "push"), require_permission=("Peek",)
    )

    ((key, why),) = wrong(rules, peek=TypeConfig(same_as="read_file"))
    assert (key, "Read File" in why) == ("rules.allow_without_permission", True)


def test_a_prohibited_type_is_not_allowed() -> None:
    rules = RulesConfig(allow_without_permission=("change_auth",))

    ((key, why),) = wrong(rules)
    assert (key, "change_auth" in why) == ("rules.allow_without_permission", True)


@pytest.mark.req("S3.5")
@pytest.mark.parametrize(
    ("rules", "key", "why"),
    [
        (
            RulesConfig(allow_without_permission=("comment",)),
            "allow_without_permission",
            "comment",
        ),
        (
            custom(ALLOW, types=("push", "Send Email")),
            "custom[0]",
            "Send Email",
        ),
        (
            custom(ALLOW, agents=("code",)),
            "custom[0]",
            "mine",
        ),
    ],
)
def test_letting_an_agent_contact_people_needs_two_settings(
    rules: RulesConfig, key: str, why: str
) -> None:
    own = ProjectRules(allow_without_permission=rules.allow_without_permission, custom=rules.custom)
    project = ProjectConfig(rules=own)
    meant = msgspec.structs.replace(own, allow_human_communication=True)

    assert named(rules) == [f"rules.{key}"]
    assert why in wrong(rules)[0][1]
    assert wrong(msgspec.structs.replace(rules, allow_human_communication=True)) == []
    assert named(None, {"web": project}) == [f"projects.web.rules.{key}"]
    assert wrong(None, {"web": ProjectConfig(rules=meant)}) == []
    assert wrong(RulesConfig(allow_human_communication=True), {"web": project}) == []


def test_a_project_that_takes_the_permission_back_may_not_use_it() -> None:
    own = ProjectRules(allow_human_communication=False, allow_without_permission=("comment",))

    assert len(wrong(RulesConfig(allow_human_communication=True), {"w": ProjectConfig(rules=own)}))


@pytest.mark.parametrize(
    "rules", [custom(ASK), custom(BLOCK), custom(ALLOW, types=("push",)), RulesConfig()]
)
def test_rules_that_contact_nobody_are_valid(rules: RulesConfig) -> None:
    assert wrong(rules) == []


def test_a_type_table_does_not_let_an_agent_contact_people() -> None:
    ping = TypeConfig(tier="auto_allowed", human=True)

    ((key, why),) = wrong(ping=ping)

    assert key == "types.ping"
    assert "allow_human_communication" in why
    assert wrong(RulesConfig(allow_human_communication=True), ping=ping) == []
    assert wrong(ping=TypeConfig(tier="requires_permission", human=True)) == []


def test_pushing_may_contact_people_too() -> None:
    rules = RulesConfig(allow_push_to=("origin",))

    assert wrong(rules) == []
    assert wrong(rules, push=TypeConfig(human=True))[0][0] == "rules.allow_push_to"


@pytest.mark.parametrize(
    ("when", "key", "value"),
    [
        ({"text": "("}, "text", "'('"),
        ({"text": ""}, "text", "''"),
        ({"hours": "22-6"}, "hours", "'22-6'"),
        ({"hours": "24:00-06:00"}, "hours", "'24:00-06:00'"),
        ({"hours": "06:00-06:00"}, "hours", "'06:00-06:00'"),
        ({"weekdays": ("sat", "Sunday")}, "weekdays", "'Sunday'"),
        ({"paths": ("src/**", "~/x")}, "paths", "'~/x'"),
        ({"paths": ("$HOME/x",)}, "paths", "'$HOME/x'"),
        ({"paths": ("x" * 10_000_000,)}, "paths", "globs"),
    ],
)
def test_a_condition_that_makes_no_sense_is_named(
    when: dict[str, str], key: str, value: str
) -> None:
    rules = custom(BLOCK, **when)
    own = ProjectRules(custom=rules.custom)

    ((found, why),) = wrong(rules)

    assert (found, value in why) == (f"rules.custom[0].when.{key}", True)
    assert wrong(None, {"web": ProjectConfig(rules=own)}) == [(f"projects.web.{found}", why)]
    assert file_problems(own) == [(found, why)]


def test_names_of_rules_are_plain_and_unique() -> None:
    names = ("a", "no name", "a", "require_permission")
    rules = RulesConfig(custom=tuple(rule(BLOCK, name) for name in names))

    assert named(rules) == [f"rules.custom[{number}].name" for number in (1, 2, 3)]


def test_sensitive_paths_and_roots_must_lead_somewhere() -> None:
    rules = RulesConfig(sensitive_paths=("~/.kube/**",), protected_paths=("!~/x",))

    keys = [key for key, _ in wrong(rules)]
    assert keys == ["rules.sensitive_paths", "rules.protected_paths"]
    relative = {"web": ProjectConfig(root="web", file="web.toml")}
    assert [key for key, _ in wrong(None, relative)] == ["projects.web.root", "projects.web.file"]


def test_every_mistake_is_named() -> None:
    rules = RulesConfig(
        allow_without_permission=("comment", "change_auth"),
        custom=(rule(ALLOW, "x y", hours="now", weekdays=("someday",)),),
    )

    assert [key for key, _ in wrong(rules, {"web": ProjectConfig(root="~")})] == [
        "rules.custom[0].name",
        "rules.custom[0].when.hours",
        "rules.custom[0].when.weekdays",
        "rules.allow_without_permission",
        "rules.allow_without_permission",
        "rules.custom[0]",
        "projects.web.root",
    ]


def test_what_a_file_would_loosen_is_no_mistake() -> None:
    file_rules = ProjectRules(allow_without_permission=("comment",))
    project = ProjectConfig(file="/x", from_file=ProjectSettings(rules=file_rules))

    assert file_problems(file_rules) == []
    assert wrong(None, {"web": project}) == []
