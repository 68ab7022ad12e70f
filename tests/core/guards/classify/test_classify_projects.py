import pytest
from msgspec.structs import replace

from safetyd.core.engine.engine import Engine
from safetyd.core.guards.gate.gate_config import GateConfig
from safetyd.core.guards.projects import ProjectConfig, ProjectSettings
from safetyd.core.guards.rules import ProjectRules, RulesConfig
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from safetyd.core.policy import Policy
from tests.core.guards.classify.classify_rig import ClassifyRig, custom, rule
from tests.core.text.patch_samples import unified
from tests.story import propose

ALLOW, ASK, BLOCK = Severity.ALLOW, Severity.ASK, Severity.BLOCK


def web(
    rules: ProjectRules | None = None,
    base: RulesConfig | None = None,
    *,
    default: bool = False,
    **more: object,
) -> ClassifyRig:
    """Return a rig with one project, `web`, that lists the agent `code`."""
    project = ProjectConfig(rules=rules or ProjectRules(), agents=("code",), **more)  # type: ignore[arg-type]
    return ClassifyRig(base, {"web": project}, default="web" if default else "")


def both(rig: ClassifyRig, type: str, **fields: object) -> tuple[Verdict, Verdict]:  # noqa: A002
    """Return the verdict for the agent that the project lists, and for another."""
    return tuple(rig.looks(type, agent=a, project="web", **fields) for a in ("code", "ops"))  # type: ignore[return-value]


@pytest.mark.req("S3.60")
def test_a_project_loosens_only_for_the_agents_it_lists() -> None:
    rig = web(ProjectRules(allow_without_permission=("push",)))

    listed, other = both(rig, "push")

    assert listed is ALLOWED
    assert (other.decision, other.rule) == (ASK, "classify.high")
    assert rig.looks("push").decision is ASK
    assert rig.looks("push", project="api").decision is ASK


@pytest.mark.req("S3.60")
def test_a_project_tightens_for_everybody() -> None:
    rig = web(ProjectRules(require_permission=("run_tests",)))

    assert {v.rule for v in both(rig, "run_tests")} == {"rules.require_permission"}
    assert rig.looks("run_tests") is ALLOWED


def test_a_projects_rules_come_before_the_global_ones() -> None:
    base = RulesConfig(require_permission=("edit_file",))
    rig = web(ProjectRules(allow_without_permission=("edit_file",)), base)

    listed, other = both(rig, "edit_file")

    assert listed is ALLOWED
    assert other.rule == "rules.require_permission"


def test_global_rules_hold_where_a_project_says_nothing() -> None:
    base = RulesConfig(allow_without_permission=("push",), require_permission=("run_tests",))
    rig = web(ProjectRules(allow_without_permission=("deploy",)), base)

    assert both(rig, "push") == (ALLOWED, ALLOWED)
    assert {v.rule for v in both(rig, "run_tests")} == {"rules.require_permission"}


def test_a_global_rule_that_blocks_does_so_in_every_project() -> None:
    rig = web(ProjectRules(allow_without_permission=("deploy",)), custom(BLOCK, types=("deploy",)))

    assert {v.rule for v in both(rig, "deploy")} == {"rules.mine"}


def test_a_project_may_have_rules_of_its_own() -> None:
    rig = web(ProjectRules(custom=(rule(BLOCK, "freeze", types=("edit_file",)),)))

    assert {v.rule for v in both(rig, "edit_file")} == {"rules.freeze"}
    assert rig.looks("edit_file") is ALLOWED


def test_a_projects_settings_replace_the_global_ones() -> None:
    rules = ProjectRules(
        prohibited_means="require_confirmation",
        sensitive_paths=("**/secret",),
        memory_per_session=0,
    )
    rig = web(rules)

    listed, other = both(rig, "change_auth")
    assert (listed.decision, other.decision) == (ASK, BLOCK)
    listed, other = both(rig, "read_file", paths=("/a/.ssh/x",))
    assert (listed, other.rule) == (ALLOWED, "classify.sensitive_path")
    assert {v.decision for v in both(rig, "read_file", paths=("secret",))} == {ASK}
    assert {v.rule for v in both(rig, "memory_write")} == {"classify.memory_cap"}


def test_a_project_may_let_its_agents_contact_people() -> None:
    rules = ProjectRules(
        allow_without_permission=("comment",),
        allow_human_communication=True,
        known_contacts=("alice",),
    )
    rig = web(rules)

    listed, other = both(rig, "comment", target=Target(name="alice"))

    assert listed is ALLOWED
    assert other.decision is ASK
    assert both(rig, "comment", target=Target(name="eve"))[0].rule == "rules.known_contacts"


@pytest.mark.req("S3.7")
@pytest.mark.req("S3.12")
@pytest.mark.parametrize("type", ["read_file", "list_files", "edit_file", "create_file"])
@pytest.mark.parametrize("path", ["../x", "/mnt/hosts", "src/../../x", "~/x", "$HOME/x"])
def test_a_path_outside_the_root_needs_approval(type: str, path: str) -> None:  # noqa: A002
    verdicts = both(web(root="/srv/web"), type, paths=("src/app.py", path))

    for verdict in verdicts:
        assert (verdict.decision, verdict.rule) == (ASK, "classify.outside_project")
        assert f'"{path}" ' in verdict.reason


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/usr/bin/ls", "/boot/grub/grub.cfg", "/sys/power/state"]
)
def test_a_file_of_the_system_needs_approval_also_where_no_project_is_named(path: str) -> None:
    for type_ in ("edit_file", "create_file"):
        verdict = coding().looks(type_, agent="code", paths=(path,))
        assert (verdict.decision, verdict.rule) == (ASK, "classify.protected_path")
    assert coding().looks("read_file", agent="code", paths=(path,)) is ALLOWED


@pytest.mark.parametrize("path", ["src/app.py", "/srv/web/x", ".", "../web/x", "/srv/web/"])
def test_a_path_inside_the_root_passes(path: str) -> None:
    assert both(web(root="/srv/web"), "edit_file", paths=(path,)) == (ALLOWED, ALLOWED)


@pytest.mark.parametrize(
    ("cwd", "path", "rule"),
    [
        ("/etc", "passwd", "classify.protected_path"),
        ("/root/.ssh", "authorized_keys", "classify.sensitive_path"),
        ("/root/.ssh", "$KEY", ""),
        ("/root/.ssh", "a$b", "classify.sensitive_path"),
        ("~/.aws", "credentials", "classify.sensitive_path"),
        (".git", "hooks/pre-commit", "classify.protected_path"),
        ("/etc", "/srv/x", ""),
        ("/etc/../srv", "x", ""),
    ],
)
def test_a_relative_path_starts_at_the_folder_of_the_proposal(
    cwd: str, path: str, rule: str
) -> None:
    assert coding().looks("edit_file", cwd=cwd, paths=(path,)).rule == rule


@pytest.mark.parametrize(
    ("cwd", "path", "inside"),
    [
        ("/mnt/other", "x", False),
        ("..", "x", False),
        ("~", "x", False),
        ("/srv", "web/x", True),
        ("src", "x", True),
        ("src", "../x", True),
    ],
)
def test_the_folder_of_a_proposal_starts_at_the_root(
    cwd: str,
    path: str,
    inside: bool,  # noqa: FBT001
) -> None:
    rule = "" if inside else "classify.outside_project"
    for verdict in both(web(root="/srv/web"), "edit_file", cwd=cwd, paths=(path,)):
        assert verdict.rule == rule


def test_a_patch_may_start_at_the_root_or_at_the_folder_of_the_proposal() -> None:
    system = {"diff": unified("a/passwd", "b/passwd")}
    assert coding().looks("edit_file", cwd="/etc", context=system).decision is ASK

    rig = web(root="/srv/web", rules=ProjectRules(protected_paths=("deploy/**",)))
    patch = {"diff": unified("a/deploy/x", "b/deploy/x")}

    assert rig.looks("edit_file", "code", project="web", cwd="src", context=patch).decision is ASK
    assert rig.looks("edit_file", "code", project="web", cwd="/mnt", context=patch).decision is ASK


@pytest.mark.parametrize(
    ("cwd", "text"), [(".git", "echo x > hooks/pre-commit"), ("~/.ssh", "cat work")]
)
def test_a_command_runs_in_the_folder_of_the_proposal(cwd: str, text: str) -> None:
    assert coding().looks("run_shell", text=text) is ALLOWED
    assert coding().looks("run_shell", text=text, cwd=cwd).decision is ASK


def test_a_root_binds_only_its_own_project() -> None:
    assert web(root="/srv/web").looks("read_file", paths=("/etc/hosts",)) is ALLOWED


def test_a_rule_that_allows_does_not_reach_outside_the_root() -> None:
    rig = web(ProjectRules(allow_without_permission=("modify_code",)), root="/srv/web")

    assert both(rig, "modify_code", paths=("a",))[0] is ALLOWED
    assert both(rig, "modify_code", paths=("/b",))[0].rule == "classify.outside_project"


def coding(profile: str = "coding", **rules: object) -> ClassifyRig:
    project = ProjectConfig(root="/srv/web", agents=("code",), rules=ProjectRules(**rules))  # type: ignore[arg-type]
    return ClassifyRig(None, {"web": project}, profile=profile)


def test_a_coding_agent_may_delete_below_the_root() -> None:
    listed, other = both(coding(), "delete_file", paths=("a", "/srv/web/b"))

    assert listed is ALLOWED
    assert other.rule == "classify.high"


@pytest.mark.parametrize("paths", [(), (".",), ("a", "../b"), ("~/a",), ("/srv/web",)])
def test_deleting_elsewhere_needs_approval(paths: tuple[str, ...]) -> None:
    assert both(coding(), "delete_file", paths=paths)[0].rule == "classify.high"


def test_a_link_that_leads_out_of_a_project_is_outside_and_not_at_home() -> None:
    read = both(coding(), "read_file", paths=("a",), resolved=("/mnt/x",))[0]
    deleted = both(coding(), "delete_file", paths=("a",), resolved=("/mnt/x",))[0]

    assert read.rule == "classify.outside_project"
    assert (deleted.rule, deleted.also) == ("classify.high", ("classify.outside_project",))
    assert both(coding(), "read_file", paths=("a",), resolved=("/srv/web/b",))[0] is ALLOWED


def test_deleting_needs_approval_where_configured() -> None:
    inside = ("a",)

    assert both(coding("strict"), "delete_file", paths=inside)[0].decision is ASK
    assert both(coding(), "delete_file", paths=(".env",))[0].rule == "classify.sensitive_path"
    assert both(coding(), "delete_file", paths=inside, risk="prohibited")[0].decision is BLOCK
    required = coding(require_permission=("delete_file",))
    assert both(required, "delete_file", paths=inside)[0].rule == "rules.require_permission"


def test_a_commands_paths_are_looked_at_too() -> None:
    rig = coding()

    assert both(rig, "run_shell", text="make", paths=("a",)) == (ALLOWED, ALLOWED)
    assert both(rig, "run_shell", text="make", paths=("/b",))[0].rule == "classify.outside_project"


@pytest.mark.req("S3.60")
def test_a_file_that_agents_may_write_only_tightens() -> None:
    file_rules = ProjectRules(
        allow_without_permission=("push", "run_tests"),
        require_permission=("edit_file",),
        custom=(rule(ALLOW, "all"),),
        prohibited_means="require_confirmation",
        sensitive_paths=(),
        allow_human_communication=True,
        memory_per_session=1_000,
    )
    base = RulesConfig(require_permission=("run_tests",), memory_per_session=0)
    rig = web(base=base, file="/srv/web/.safetyd.toml", from_file=ProjectSettings(rules=file_rules))

    for verdict in both(rig, "push") + both(rig, "run_tests") + both(rig, "send_email"):
        assert verdict.decision is ASK
    assert {v.rule for v in both(rig, "edit_file")} == {"rules.require_permission"}
    assert {v.decision for v in both(rig, "change_auth")} == {BLOCK}
    assert {v.rule for v in both(rig, "read_file", paths=(".env",))} == {"classify.sensitive_path"}
    assert {v.rule for v in both(rig, "memory_write")} == {"classify.memory_cap"}


def test_what_a_file_does_not_say_is_not_tightened() -> None:
    base = RulesConfig(prohibited_means="require_confirmation", memory_per_session=60)
    rules = ProjectRules(allow_without_permission=("push",))
    rig = web(rules, base, file="x", from_file=ProjectSettings())

    assert both(rig, "push")[0] is ALLOWED
    assert both(rig, "change_auth")[0].decision is ASK


def test_in_a_project_with_a_broken_file_everything_needs_approval() -> None:
    rig = web(file="/srv/web/.safetyd.toml", file_broken="line 3: not TOML")

    for verdict in both(rig, "read_file"):
        assert (verdict.decision, verdict.rule) == (ASK, "classify.project_file")
        assert verdict.reason.endswith("line 3: not TOML")
    assert {v.decision for v in both(rig, "change_auth")} == {BLOCK}
    assert rig.looks("read_file") is ALLOWED


def test_default_project_applies_to_proposals_that_name_none() -> None:
    rules = ProjectRules(require_permission=("run_tests",))
    rig = web(rules, root="/srv/web", default=True)

    assert rig.looks("edit_file", paths=("/srv/web/a",)) is ALLOWED
    for project in (None, "", "web"):
        outside = rig.looks("edit_file", paths=("/opt/other/x",), project=project)
        assert outside.rule == "classify.outside_project"
        assert rig.looks("run_tests", project=project).rule == "rules.require_permission"


def test_unknown_project_needs_approval_and_has_the_rules_of_the_default_one() -> None:
    rig = web(root="/srv/web", default=True)

    verdict = rig.looks("edit_file", paths=("/opt/x",), project="webb")

    assert (verdict.decision, verdict.rule) == (ASK, "classify.unknown_project")
    assert '"webb"' in verdict.reason
    assert "web" in verdict.reason.partition('"webb"')[2]
    assert "classify.outside_project" in verdict.also


def test_project_name_is_a_label_if_no_project_is_configured() -> None:
    assert ClassifyRig().looks("read_file", project="web") is ALLOWED


def test_relative_paths_start_in_the_cwd_and_that_in_the_root() -> None:
    rig = web(root="/srv/web", default=True)

    assert rig.looks("edit_file", paths=("a",), cwd="/srv/web/src") is ALLOWED
    assert rig.looks("edit_file", paths=("../../a",), cwd="/srv/web/src/lib") is ALLOWED
    assert rig.looks("edit_file", paths=("../a",), cwd="src") is ALLOWED
    for path, cwd in (("a", "/opt/other"), ("../../a", "/srv/web/src"), ("../../a", "src")):
        verdict = rig.looks("edit_file", paths=(path,), cwd=cwd)
        assert verdict.rule == "classify.outside_project", (path, cwd)
    secret = ClassifyRig().looks("read_file", paths=("id_ed25519",), cwd="/home/me/.ssh")
    assert secret.rule == "classify.sensitive_path"


@pytest.mark.parametrize(
    ("command", "target", "changes", "rule"),
    [
        ("cat k", "/home/me/.ssh/id_rsa", False, "classify.sensitive_path"),
        ("cat k", "/mnt/x", False, "classify.outside_project"),
        ("touch k", "/srv/web/.git/hooks/pre-commit", True, "classify.protected_path"),
        ("touch k", "/mnt/x", True, "classify.outside_project"),
    ],
)
def test_a_link_in_a_command_is_judged_by_where_it_leads(
    command: str,
    target: str,
    changes: bool,  # noqa: FBT001 - a case
    rule: str,
) -> None:
    projects = {"web": ProjectConfig(root="/srv/web")}
    engine = Engine(Policy(profile="coding", projects=projects, default_project="web"))
    proposed = propose(0, type="run_shell", text=command, cwd="/srv/web")
    changed = (target,) if changes else ()

    decision, _ = engine.decide(replace(proposed, resolved=(target,), changed=changed))

    assert rule in decision.triggered_rules


def test_where_commands_are_not_analysed_no_remote_of_a_push_is_known() -> None:
    gate, rules = GateConfig(shell="patterns"), RulesConfig(allow_push_to=("origin",))
    engine = Engine(Policy(profile="coding", gate=gate, rules=rules))
    proposed = propose(0, type="push", text="git push origin main", remote="origin")

    decision, _ = engine.decide(proposed)

    assert decision.triggered_rules == ("classify.high",)
