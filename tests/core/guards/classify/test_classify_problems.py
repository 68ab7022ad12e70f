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

    assert wrong(rules, peek=TypeConfig(same_as="read_file")) == [
        (
            "rules.allow_without_permission",
            "Read File is in require_permission too: keep it in one of them",
        )
    ]


def test_a_prohibited_type_is_not_allowed() -> None:
    rules = RulesConfig(allow_without_permission=("change_auth",))

    assert wrong(rules) == [
        (
            "rules.allow_without_permission",
            "change_auth is prohibited: put it into require_permission to be asked about it",
        )
    ]


@pytest.mark.req("S3.5")
@pytest.mark.parametrize(
    ("rules", "key", "why"),
    [
        (
            RulesConfig(allow_without_permission=("comment",)),
            "allow_without_permission",
            "comment speaks to a person: ",
        ),
        (
            custom(ALLOW, types=("push", "Send Email")),
            "custom[0]",
            "rule mine lets Send Email pass, which speaks to a person: ",
        ),
        (
            custom(ALLOW, agents=("code",)),
            "custom[0]",
            "rule mine would let types pass that speak to a person; name the types it is for: ",
        ),
    ],
)
def test_letting_an_agent_speak_to_people_must_be_said_twice(
    rules: RulesConfig, key: str, why: str
) -> None:
    why += "set allow_human_communication = true as well if that is meant"
    own = ProjectRules(allow_without_permission=rules.allow_without_permission, custom=rules.custom)
    project = ProjectConfig(rules=own)
    meant = msgspec.structs.replace(own, allow_human_communication=True)

    assert wrong(rules) == [(f"rules.{key}", why)]
    assert wrong(msgspec.structs.replace(rules, allow_human_communication=True)) == []
    assert wrong(None, {"web": project}) == [(f"projects.web.rules.{key}", why)]
    assert wrong(None, {"web": ProjectConfig(rules=meant)}) == []
    assert wrong(RulesConfig(allow_human_communication=True), {"web": project}) == []


def test_a_project_that_takes_the_permission_back_may_not_use_it() -> None:
    own = ProjectRules(allow_human_communication=False, allow_without_permission=("comment",))

    assert len(wrong(RulesConfig(allow_human_communication=True), {"w": ProjectConfig(rules=own)}))


@pytest.mark.parametrize(
    "rules", [custom(ASK), custom(BLOCK), custom(ALLOW, types=("push",)), RulesConfig()]
)
def test_rules_that_let_nobody_speak_are_right(rules: RulesConfig) -> None:
    assert wrong(rules) == []


def test_a_table_of_types_does_not_let_an_agent_speak_to_people() -> None:
    ping = TypeConfig(tier="auto_allowed", human=True)

    ((key, why),) = wrong(ping=ping)

    assert key == "types.ping"
    assert why.startswith("it speaks to a person and would pass unasked")
    assert wrong(RulesConfig(allow_human_communication=True), ping=ping) == []
    assert wrong(ping=TypeConfig(tier="requires_permission", human=True)) == []


def test_pushing_may_speak_to_people_too() -> None:
    rules = RulesConfig(allow_push_to=("origin",))

    assert wrong(rules) == []
    assert wrong(rules, push=TypeConfig(human=True))[0][0] == "rules.allow_push_to"


@pytest.mark.parametrize(
    ("when", "key", "why"),
    [
        ({"text": "("}, "text", "pattern text, '(': missing ): ("),
        ({"text": ""}, "text", "pattern text, '': it is empty and would match everything"),
        (
            {"hours": "22-6"},
            "hours",
            "'22-6' is no span of hours: write it as \"22:00-06:00\"",
        ),
        (
            {"hours": "24:00-06:00"},
            "hours",
            "'24:00-06:00' is no span of hours: write it as \"22:00-06:00\"",
        ),
        (
            {"hours": "06:00-06:00"},
            "hours",
            "'06:00-06:00' has no length: leave hours out for the whole day",
        ),
        (
            {"weekdays": ("sat", "Sunday")},
            "weekdays",
            "'Sunday' is no weekday: use mon, tue, wed, thu, fri, sat, sun",
        ),
        (
            {"paths": ("src/**", "~/x")},
            "paths",
            "'~/x' leads elsewhere for each agent: write a full path, or begin with **/",
        ),
        (
            {"paths": ("$HOME/x",)},
            "paths",
            "'$HOME/x' leads elsewhere for each agent: write a full path, or begin with **/",
        ),
        (
            {"paths": ("x" * 10_000_000,)},
            "paths",
            "the globs are too many or too long: use fewer or shorter ones",
        ),
    ],
)
def test_a_condition_that_makes_no_sense_is_named(when: dict[str, str], key: str, why: str) -> None:
    rules = custom(BLOCK, **when)
    own = ProjectRules(custom=rules.custom)

    assert wrong(rules) == [(f"rules.custom[0].when.{key}", why)]
    assert wrong(None, {"web": ProjectConfig(rules=own)}) == [
        (f"projects.web.rules.custom[0].when.{key}", why)
    ]
    assert file_problems(own) == [(f"rules.custom[0].when.{key}", why)]


def test_names_of_rules_are_plain_and_told_apart() -> None:
    names = ("a", "no name", "a", "require_permission")
    rules = RulesConfig(custom=tuple(rule(BLOCK, name) for name in names))

    assert wrong(rules) == [
        ("rules.custom[1].name", "'no name' is no name: use A-Z a-z 0-9 _ . -, at most 64"),
        ("rules.custom[2].name", "a is already the name of another rule"),
        (
            "rules.custom[3].name",
            "require_permission is already the name of another rule",
        ),
    ]


def test_sensitive_paths_and_roots_must_lead_somewhere() -> None:
    rules = RulesConfig(sensitive_paths=("~/.kube/**",), protected_paths=("!~/x",))

    keys = [key for key, _ in wrong(rules)]
    assert keys == ["rules.sensitive_paths", "rules.protected_paths"]
    assert wrong(None, {"web": ProjectConfig(root="web")}) == [
        ("projects.web.root", "'web' must be an absolute path")
    ]


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
