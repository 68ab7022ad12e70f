from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest

from safetyd.core.action_types import TypeConfig
from safetyd.core.guards.rules import SENSITIVE, RulesConfig
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import ALLOWED, Severity
from safetyd.core.text.path_globs import UNFOLLOWED
from tests.core.guards.classify.classify_rig import ClassifyRig, at_time, custom, rule

ALLOW, ASK, BLOCK = Severity.ALLOW, Severity.ASK, Severity.BLOCK
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.req("S3.14")
def test_a_type_can_be_promoted() -> None:
    rig = ClassifyRig(RulesConfig(allow_without_permission=("Create Pull-Request",)))

    assert rig.looks("create_pull_request") is ALLOWED
    assert rig.looks("push").decision is ASK


def test_a_type_can_be_promoted_by_another_name() -> None:
    types = {"PR": TypeConfig(same_as="create_pull_request")}

    rig = ClassifyRig(RulesConfig(allow_without_permission=("pr",)), types=types)

    assert rig.looks("create_pull_request") is ALLOWED


@pytest.mark.req("S3.15")
def test_a_type_can_be_demoted() -> None:
    verdict = ClassifyRig(RulesConfig(require_permission=("run_tests",))).looks("run_tests")

    assert (verdict.decision, verdict.rule) == (ASK, "rules.require_permission")


@pytest.mark.req("S3.16")
def test_pushing_to_a_listed_remote_passes() -> None:
    rig = ClassifyRig(RulesConfig(allow_push_to=("origin",)))

    assert rig.looks("push", remote="origin") is ALLOWED
    assert rig.looks("push", remote="evil").decision is ASK
    assert rig.looks("push").decision is ASK
    assert rig.looks("deploy", remote="origin").decision is ASK


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("git push origin main", ALLOW),
        ("git -C sub push -u origin HEAD && git status", ALLOW),
        ("git push upstream main", ASK),
        ("git push --repo origin upstream", ASK),
        ("git push origin main; git push upstream main", ASK),
        ("git push origin main && rm -rf ~/music", ASK),
        ('git push "$REMOTE" main', ASK),
        ("git push", ASK),
        ("git -C /srv/other push origin main", ASK),
        ("cd /srv/other && git push origin main", ASK),
        ("Push the release to origin", ASK),
        ("git push origin 'main", ASK),
    ],
)
def test_the_remote_in_a_command_counts_not_the_one_that_the_agent_states(
    text: str, decision: Severity
) -> None:
    rules = RulesConfig(allow_push_to=("origin",))
    for each in (rules, custom(ALLOW, types=("push",), remotes=("origin",))):
        said = ClassifyRig(each).looks("push", remote="origin", text=text)
        assert said.decision is decision
    blocked = ClassifyRig(custom(BLOCK, types=("push",), remotes=("upstream",)))
    named = blocked.looks("push", remote="origin", text="git push upstream main")
    assert named.decision is BLOCK


def test_a_prohibited_type_can_be_made_a_question() -> None:
    rig = ClassifyRig(RulesConfig(require_permission=("change_password",)))

    assert rig.looks("change_password").decision is ASK


def test_unchecked_rules_do_not_allow_a_prohibited_type() -> None:
    rig = ClassifyRig(RulesConfig(allow_without_permission=("change_password",)))

    assert rig.looks("change_password").decision is BLOCK


def test_an_unknown_type_can_be_promoted() -> None:
    assert ClassifyRig(RulesConfig(allow_without_permission=("bake",))).looks("bake") is ALLOWED


@pytest.mark.parametrize(
    "rules",
    [
        RulesConfig(allow_without_permission=("push", "run_shell", "edit_file")),
        RulesConfig(allow_push_to=("origin",)),
        custom(ALLOW),
    ],
)
def test_no_rule_lowers_what_the_agents_own_words_raised(rules: RulesConfig) -> None:
    rig = ClassifyRig(rules)

    assert rig.looks("push", remote="origin", risk="prohibited").decision is BLOCK
    assert rig.looks("run_shell", reversibility="irreversible").decision is ASK
    assert rig.looks("edit_file", risk="high").decision is ASK


def test_words_that_say_no_more_than_the_table_leave_a_promotion_alone() -> None:
    rig = ClassifyRig(RulesConfig(allow_without_permission=("push",)))

    assert rig.looks("push", risk="high", reversibility="irreversible") is ALLOWED


def test_a_rule_still_tightens_what_the_agents_own_words_raised() -> None:
    rig = ClassifyRig(custom(BLOCK, types=("edit_file",)))

    assert rig.looks("edit_file", risk="high").rule == "rules.mine"


def test_rules_are_asked_in_their_order() -> None:
    everything = RulesConfig(
        custom=(
            rule(ALLOW, "a", types=("push",)),
            rule(ASK, "b", types=("push",), remotes=("origin",)),
            rule(BLOCK, "c", types=("push",), agents=("ops",)),
        ),
        allow_push_to=("origin",),
        require_permission=("deploy",),
    )
    rig = ClassifyRig(everything)

    assert rig.looks("push", agent="ops").rule == "rules.c"
    assert rig.looks("push", remote="origin") is ALLOWED
    required = msgspec.structs.replace(everything, require_permission=("push",))
    assert ClassifyRig(required).looks("push").rule == "rules.require_permission"
    assert ClassifyRig(required).looks("push", agent="ops").rule == "rules.c"
    asking = msgspec.structs.replace(everything, custom=everything.custom[1:])
    assert ClassifyRig(asking).looks("push", remote="origin").rule == "rules.b"


def test_a_custom_rule_gives_its_reason_or_says_what_it_does() -> None:
    rig = ClassifyRig(
        custom(BLOCK, "window", "Deployments wait for the morning", types=("deploy",))
    )

    assert rig.looks("deploy").reason == "Deployments wait for the morning"
    assert ClassifyRig(custom(BLOCK, "window")).looks().reason == "Rule window blocks this action"


@pytest.mark.parametrize(
    ("when", "yes", "no"),
    [
        ({"types": ("Read-File",)}, {}, {"type": "search"}),
        ({"agents": ("code",)}, {}, {"agent": "ops"}),
        ({"projects": ("web",)}, {"project": "web"}, {}),
        ({"projects": ("web",)}, {"project": "web"}, {"project": "api"}),
        ({"remotes": ("origin",)}, {"remote": "origin"}, {}),
        ({"text": "^SELECT"}, {"text": "select 1"}, {"text": "-- select"}),
        ({"text": "drop"}, {"text": "ｄｒｏｐ"}, {"text": ""}),  # noqa: RUF001
        ({"paths": ("src/**",)}, {"paths": ("x", "src/a")}, {"paths": ("/x", "/lib/src")}),
        ({"paths": ("src/**",)}, {"paths": ("lib/../src/a",)}, {}),
        ({"cost_over_usd": 2.0}, {"cost_usd": 2.5}, {"cost_usd": 2.0}),
        ({"cost_over_usd": 0.0}, {"cost_usd": 0.1}, {}),
        ({"files_over": 1}, {"paths": ("/a", "/b")}, {"paths": ("/a",)}),
        ({"files_over": 9}, {"context": {"files_changed": 10}}, {"context": {"files_changed": 9}}),
        ({"files_over": 0}, {"paths": ("a",), "context": {"files_changed": 0}}, {}),
        ({"files_over": 0}, {"context": {"files_changed": 1}}, {"context": {"files_changed": "1"}}),
        ({"agents": ("code",), "text": "x"}, {"text": "x"}, {"text": "x", "agent": "ops"}),
    ],
)
def test_a_custom_rule_matches_when_all_that_is_given_holds(
    when: dict[str, str], yes: dict[str, str], no: dict[str, str]
) -> None:
    rig = ClassifyRig(custom(BLOCK, **when))

    assert rig.looks(**yes).rule == "rules.mine"
    assert rig.looks(**no) is ALLOWED


def test_files_are_counted_in_a_context_as_it_comes_from_the_wire() -> None:
    rig = ClassifyRig(custom(BLOCK, files_over=2))

    assert rig.looks(context=msgspec.Raw(b'{"files_changed":3}')).rule == "rules.mine"
    assert rig.looks(context=msgspec.Raw(b'{"branch":"x"}')) is ALLOWED


def test_a_custom_rule_may_be_for_one_mode() -> None:
    rules = custom(BLOCK, modes=("production",))

    assert ClassifyRig(rules).looks().rule == "rules.mine"
    assert ClassifyRig(rules, mode="development").looks() is ALLOWED


@pytest.mark.parametrize(
    ("hours", "clock", "matches"),
    [
        ("22:00-06:00", (21, 59), False),
        ("22:00-06:00", (22, 0), True),
        ("22:00-06:00", (0, 0), True),
        ("22:00-06:00", (5, 59), True),
        ("22:00-06:00", (6, 0), False),
        ("09:00-17:30", (9, 0), True),
        ("09:00-17:30", (17, 29), True),
        ("09:00-17:30", (17, 30), False),
        ("09:00-17:30", (8, 59), False),
        ("00:00-00:01", (0, 0), True),
        ("12:00-00:00", (23, 59), True),
        ("12:00-00:00", (0, 0), False),
    ],
)
def test_hours_begin_with_the_first_and_end_before_the_last(
    hours: str,
    clock: tuple[int, int],
    matches: bool,  # noqa: FBT001
) -> None:
    rig = ClassifyRig(custom(BLOCK, hours=hours), timezone=BERLIN)

    verdict = at_time(rig, datetime(2026, 1, 15, *clock, 30, tzinfo=BERLIN).astimezone(UTC))

    assert (verdict.rule == "rules.mine") is matches


def test_weekdays_are_those_of_the_place() -> None:
    rig = ClassifyRig(custom(BLOCK, weekdays=("sat", "sun")), timezone=BERLIN)

    # Half past eleven on Friday night in UTC is Saturday in Berlin.
    assert at_time(rig, datetime(2026, 1, 16, 23, 30, tzinfo=UTC)).rule == "rules.mine"
    assert at_time(rig, datetime(2026, 1, 16, 22, 30, tzinfo=UTC)) is ALLOWED
    assert at_time(rig, datetime(2026, 1, 18, 23, 30, tzinfo=UTC)) is ALLOWED


def test_a_rule_that_allows_needs_every_path_to_match() -> None:
    rig = ClassifyRig(custom(ALLOW, types=("modify_code",), paths=("/srv/docs/**",)))

    assert rig.looks("modify_code", paths=("/srv/docs/a", "/srv/docs/b")) is ALLOWED
    assert rig.looks("modify_code", paths=("/srv/docs/a", "/srv/src/b")).decision is ASK
    assert rig.looks("modify_code", paths=("/srv/docs/../src/b",)).decision is ASK
    assert rig.looks("modify_code", paths=("/srv/docs/$X",)).decision is ASK
    assert rig.looks("modify_code").decision is ASK


def test_a_rule_that_allows_matches_the_raw_text() -> None:
    rig = ClassifyRig(custom(ALLOW, types=("run_shell",), text="^make$"))

    assert rig.looks("run_shell", text="make") is ALLOWED
    assert rig.looks("run_shell", text="ｍake").decision is ASK  # noqa: RUF001


@pytest.mark.parametrize("then", [ALLOW, ASK])
def test_a_rule_loosens_a_prohibited_type_only_by_its_name(then: Severity) -> None:
    broad, named = custom(then, agents=("code",)), custom(then, types=("change_auth",))

    assert ClassifyRig(broad).looks("change_auth").rule == "classify.prohibited"
    assert ClassifyRig(named).looks("change_auth").decision is then


@pytest.mark.req("S3.5")
@pytest.mark.parametrize(
    "rules",
    [custom(ALLOW), RulesConfig(allow_without_permission=("send_email",))],
)
def test_unchecked_rules_do_not_let_an_agent_contact_people(rules: RulesConfig) -> None:
    verdict = ClassifyRig(rules).looks("send_email")

    assert (verdict.decision, verdict.rule) == (ASK, "classify.human")


def test_an_allowed_type_that_contacts_people_still_needs_approval() -> None:
    types = {"ping": TypeConfig(tier="auto_allowed", human=True)}

    assert ClassifyRig(types=types).looks("ping").rule == "classify.human"


def test_contacting_people_can_be_allowed() -> None:
    rules = RulesConfig(allow_without_permission=("send_email",), allow_human_communication=True)

    assert ClassifyRig(rules).looks("send_email", target=Target(name="eve")) is ALLOWED
    assert ClassifyRig(rules).looks("comment").decision is ASK


def test_contacting_people_can_be_allowed_for_known_contacts_only() -> None:
    rig = ClassifyRig(
        RulesConfig(
            allow_without_permission=("send_email",),
            allow_human_communication=True,
            known_contacts=("alice@example.com",),
        )
    )

    assert rig.looks("send_email", target=Target(name="alice@example.com")) is ALLOWED
    verdict = rig.looks("send_email", target=Target(name="alice@example.com, eve"))
    assert (verdict.decision, verdict.rule) == (ASK, "rules.known_contacts")
    assert rig.looks("send_email").rule == "rules.known_contacts"
    assert rig.looks("comment", target=Target(name="alice@example.com")).rule == "classify.high"


@pytest.mark.parametrize(
    "path",
    [
        "/home/a/.ssh/config",
        "~/.SSH/id",
        "$HOME/.aws/credentials",
        ".gnupg",
        "x/.netrc",
        ".env",
        "web/.env.local",
        "certs/site.pem",
        "id_rsa",
        "../id_ed25519",
        "/etc/../etc//shadow",
        "//etc/shadow",
    ],
)
@pytest.mark.parametrize("type", ["read_file", "edit_file", "write_log"])
def test_a_sensitive_path_needs_approval(type: str, path: str) -> None:  # noqa: A002
    verdict = ClassifyRig().looks(type, paths=("README.md", path))

    assert (verdict.decision, verdict.rule) == (ASK, "classify.sensitive_path")
    assert verdict.reason.startswith(f'"{path}"')


@pytest.mark.parametrize(
    "path", ["/a/.env.example", "/env", "/etc/shadowy", "/a/ssh/config", "/a.pemx"]
)
def test_a_path_like_a_sensitive_one_passes(path: str) -> None:
    assert ClassifyRig().looks(paths=(path,)) is ALLOWED


def test_a_sensitive_path_needs_approval_whatever_a_rule_allows() -> None:
    rig = ClassifyRig(custom(ALLOW, types=("read_file",)))

    assert rig.looks(paths=("/a/.ssh/x",)).rule == "classify.sensitive_path"


def test_a_block_stays_one_and_lists_the_path_too() -> None:
    verdict = ClassifyRig().looks("read_credentials", paths=("/a/.ssh/x", "/b/.ssh/x"))

    assert (verdict.decision, verdict.rule) == (BLOCK, "classify.prohibited")
    assert verdict.also == ("classify.sensitive_path",)


def test_sensitive_paths_are_the_operators_to_choose() -> None:
    rig = ClassifyRig(RulesConfig(sensitive_paths=("/var/lib/safetyd/**",)))

    assert rig.looks(paths=("/var/lib/safetyd",)).rule == "classify.sensitive_path"
    assert rig.looks(paths=("/a/.ssh/x",)) is ALLOWED
    assert "**/.ssh/**" in SENSITIVE


def test_a_path_is_judged_by_where_it_leads() -> None:
    verdict = ClassifyRig().looks(paths=("/srv/notes",), resolved=("/a/.ssh/x",))

    assert (verdict.decision, verdict.rule) == (ASK, "classify.sensitive_path")
    assert verdict.reason.startswith('"/a/.ssh/x"')
    assert ClassifyRig().looks(paths=("/srv/notes",), resolved=("/a/b",)) is ALLOWED


def test_a_rule_that_allows_paths_must_match_where_they_lead() -> None:
    rig = ClassifyRig(custom(ALLOW, types=("push",), paths=("/srv/docs/**",)))

    assert rig.looks("push", paths=("/srv/docs/a",)) is ALLOWED
    assert rig.looks("push", paths=("/srv/docs/a",), resolved=("/etc/x",)).decision is ASK


def test_a_rule_that_asks_about_paths_asks_about_where_they_lead() -> None:
    rig = ClassifyRig(custom(ASK, paths=("/etc/**",)))

    assert rig.looks(paths=("a",), resolved=("/etc/x",)).rule == "rules.mine"


def test_a_relative_path_without_a_folder_needs_approval() -> None:
    rig = ClassifyRig(profile="coding")

    verdict = rig.looks("edit_file", paths=["passwd"])

    assert (verdict.decision, verdict.rule) == (ASK, "classify.no_folder")
    assert '"passwd" is a relative path, and no folder (cwd) is given' in verdict.reason
    assert "is relative too" in rig.looks("edit_file", paths=["passwd"], cwd="etc").reason
    assert rig.looks("edit_file", paths=["passwd"], cwd="/etc").rule == "classify.protected_path"
    assert rig.looks("edit_file", paths=["main.py"], cwd="/srv/shop") is ALLOWED


def test_paths_that_cannot_be_resolved_need_approval() -> None:
    verdict = ClassifyRig().looks(paths=("/srv/notes",), resolved=("/a/b", UNFOLLOWED))

    assert (verdict.decision, verdict.rule) == (ASK, "classify.unfollowed_paths")
