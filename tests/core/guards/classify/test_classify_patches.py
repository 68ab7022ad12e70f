"""Files in a patch are judged like paths, and by their mode."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.action_types import TypeConfig
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.rules import PROTECTED, SENSITIVE, ProjectRules, RulesConfig
from safetyd.core.messages.verdict import ALLOW, ALLOWED, ASK, BLOCK
from tests.core.guards.classify.classify_rig import ClassifyRig, custom
from tests.core.text.patch_samples import unified
from tests.cost import ratio

GUARDED, SECRET = "classify.protected_path", "classify.sensitive_path"
OUTSIDE, BIT, LINK = "classify.outside_project", "classify.executable_bit", "classify.symlink"
UNREAD = "classify.unreadable_patch"
STRICT, CODING = ClassifyRig(), ClassifyRig(profile="coding")
IN_PROJECT = ClassifyRig(
    RulesConfig(),
    {
        "web": ProjectConfig(
            root="/srv/web", agents=("code",), rules=ProjectRules(protected_paths=("ci/*",))
        )
    },
)
WORKFLOW = ".github/workflows/ci.yml"
PLAIN = unified("a/src/app.py", "b/src/app.py")


def envelope(directive: str) -> str:
    return f"*** Begin Patch\n{directive}\n*** End Patch\n"


@pytest.mark.parametrize("rig", [STRICT, CODING])
def test_a_patch_of_source_files_passes(rig: ClassifyRig) -> None:
    renamed = "diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n"
    for patch in (PLAIN, renamed, f"Fix it\n{PLAIN}", envelope("*** Update File: a.py\n+a")):
        diff = {"diff": patch}
        assert rig.looks("edit_file", paths=("/srv/src/app.py",), context=diff) is ALLOWED
        assert rig.looks("create_file", text=patch) is ALLOWED
    assert rig.looks("create_file", text="+++ 1\n--- 2\n@@ x") is ALLOWED
    assert rig.looks("edit_file", context={"diff": "- a\n+ b"}) is ALLOWED


@pytest.mark.parametrize(
    ("patch", "deed"),
    [
        (unified(f"a/{WORKFLOW}", f"b/{WORKFLOW}"), "changes it"),
        (unified(WORKFLOW, WORKFLOW), "changes it"),
        (unified("/dev/null", f"b/{WORKFLOW}"), "creates it"),
        (unified(f"a/{WORKFLOW}", "/dev/null"), "deletes it"),
        (f"diff --git a/{WORKFLOW} b/x\nrename from {WORKFLOW}\nrename to x\n", "moves it away"),
        (f"diff --git a/x b/{WORKFLOW}\ncopy from x\ncopy to {WORKFLOW}\n", "creates it"),
        (envelope(f"*** Add File: {WORKFLOW}"), "creates it"),
        (envelope(f"*** Update File: x\n*** Move to: {WORKFLOW}"), "creates it"),
        (PLAIN + unified(f"a/{WORKFLOW}", f"b/{WORKFLOW}"), "changes it"),
    ],
)
def test_a_patch_of_protected_files_needs_approval_and_says_what_it_does(
    patch: str, deed: str
) -> None:
    for fields in ({"context": {"diff": patch}}, {"text": patch}, {"extra": {"patch": patch}}):
        verdict = CODING.looks("edit_file", paths=("src/app.py",), **fields)

        assert (verdict.decision, verdict.rule) == (ASK, GUARDED)
        assert f"the patch {deed}" in verdict.reason
        assert "**/.github/workflows/**" in verdict.reason
        assert WORKFLOW in verdict.remedy


@pytest.mark.parametrize("type_", ["edit_file", "create_file", "content_update", "apply_patch"])
def test_it_needs_approval_with_every_tool(type_: str) -> None:
    known = {"apply_patch": TypeConfig(tier="auto_allowed")}

    verdict = ClassifyRig(types=known).looks(type_, text=unified("a/.envrc", "b/.envrc"))

    assert (verdict.decision, verdict.rule) == (ASK, GUARDED)


def test_it_is_one_of_the_reasons_where_a_person_is_asked_anyway() -> None:
    patch = unified("a/.envrc", "b/.envrc")

    for type_ in ("modify_code", "delete_file", "unknown_tool"):
        assert GUARDED in STRICT.looks(type_, text=patch).also


def test_what_is_only_read_or_copied_passes_where_reading_does() -> None:
    patch = unified(f"a/{WORKFLOW}", f"b/{WORKFLOW}")
    copied = f"diff --git a/{WORKFLOW} b/x\ncopy from {WORKFLOW}\ncopy to x\n"
    mode = "diff --git a/x b/x\nnew file mode 100755\n"

    assert CODING.looks("git_diff", context={"diff": patch}) is ALLOWED
    assert CODING.looks("edit_file", context={"diff": copied}) is ALLOWED
    assert CODING.looks("git_diff", context={"diff": mode}) is ALLOWED
    assert CODING.looks("git_diff", context={"diff": PLAIN[:-3]}) is ALLOWED
    secret = CODING.looks("git_diff", context={"diff": unified("a/.env", "b/.env")})
    assert secret.rule == SECRET
    assert CODING.looks("draft", text=patch) is ALLOWED


@pytest.mark.parametrize(
    "path", ["../x", "/etc/hostname", "src/../../x", "~/x", "$HOME/x", "/srv/website/x"]
)
def test_in_a_project_what_lies_outside_needs_approval(path: str) -> None:
    for patch in (unified(path, path), unified(f"a/{path}", f"b/{path}")):
        verdict = IN_PROJECT.looks("edit_file", project="web", text=patch)

        assert OUTSIDE in {verdict.rule, *verdict.also}
        assert "/srv/web" in verdict.remedy


def test_in_a_project_its_own_lists_hold_for_patches() -> None:
    def rules(path: str) -> set[str]:
        patch = unified(f"a/{path}", f"b/{path}")
        verdict = IN_PROJECT.looks("edit_file", project="web", text=patch)
        return set() if verdict is ALLOWED else {verdict.rule, *verdict.also}

    assert rules("src/app.py") == set()
    assert rules("/srv/web/src/app.py") == set()
    assert rules("ci/build.sh") == {GUARDED}
    assert rules("./x/../ci/build.sh") == {GUARDED}
    assert rules(".env") == {SECRET}


def test_without_a_root_a_path_may_go_up_as_far_as_there_is() -> None:
    path = "../../../../etc/profile.d/x.sh"

    assert CODING.looks("edit_file", text=unified(path, path)).rule == GUARDED


@pytest.mark.parametrize(
    ("headers", "rule"),
    [
        ("old mode 100644\nnew mode 100755\n", BIT),
        ("new file mode 100755\nindex 0000000..e69de29\n", BIT),
        ("new file mode 120000\nindex 0000000..e69de29\n", LINK),
    ],
)
def test_modes_that_run_or_lead_elsewhere_need_approval(headers: str, rule: str) -> None:
    verdict = CODING.looks("edit_file", text=f"diff --git a/run.sh b/run.sh\n{headers}")

    assert (verdict.decision, verdict.rule) == (ASK, rule)
    assert "run.sh" in verdict.reason


def test_a_context_that_makes_a_file_executable_needs_approval() -> None:
    run = ("/srv/run.sh",)
    verdict = CODING.looks("create_file", paths=run, context={"mode": "0755"})

    assert (verdict.decision, verdict.rule) == (ASK, BIT)
    assert CODING.looks("create_file", paths=run, context={"mode": "644"}) is ALLOWED
    assert CODING.looks("create_file", context={"executable": True}) is ALLOWED
    assert CODING.looks("model_call", paths=run, context={"executable": True}) is ALLOWED


def test_an_invalid_patch_needs_approval() -> None:
    verdict = CODING.looks("edit_file", paths=("src/app.py",), context={"diff": PLAIN[:-3]})

    assert (verdict.decision, verdict.rule) == (ASK, UNREAD)
    assert "line 3" in verdict.reason


def test_custom_rules_see_the_files_of_a_patch() -> None:
    other = unified("a/other/x", "b/other/x")
    allows = ClassifyRig(custom(ALLOW, types=("modify_code",), paths=("src/**",)))
    blocks = ClassifyRig(custom(BLOCK, paths=("other/**",)))
    many = ClassifyRig(custom(BLOCK, files_over=1))

    assert allows.looks("modify_code", text=PLAIN) is ALLOWED
    assert allows.looks("modify_code", paths=("src/x",), text=other).decision is ASK
    assert blocks.looks("edit_file", paths=("src/x",), text=other).decision is BLOCK
    assert many.looks("edit_file", text=PLAIN) is ALLOWED
    assert many.looks("edit_file", text=PLAIN + other).decision is BLOCK


def examples(globs: tuple[str, ...]) -> list[str]:
    kept = [glob for glob in globs if not glob.startswith("!")]
    return [glob.replace("**", "x").replace("*", "x") for glob in kept]


@given(
    st.sampled_from([*examples(PROTECTED), *examples(SENSITIVE)]),
    st.sampled_from([("a/", "b/"), ("", ""), ("old/", "new/"), ("./", "./"), ("b/", "a/")]),
    st.permutations([PLAIN, unified("/dev/null", "b/new.py"), ""]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_every_listed_path_is_found_in_a_patch(
    path: str, prefixes: tuple[str, str], others: list[str], end: str
) -> None:
    if path.startswith("/"):
        prefixes = ("", "")
    others[1] = unified(prefixes[0] + path, prefixes[1] + path)
    text = "".join(others).replace("\n", end)

    verdict = CODING.looks("edit_file", context={"diff": text})

    assert {verdict.rule, *verdict.also} & {GUARDED, SECRET}


def test_a_large_patch_costs_no_more_than_some_reading_of_it() -> None:
    lines = "".join(f" line {number}\n" for number in range(4000))
    text = f"--- a/src/x\n+++ b/src/x\n@@ -1,4001 +1,4001 @@\n-a\n+b\n{lines}"
    turns = iter(range(1_000_000))

    def look() -> object:
        return CODING.looks("edit_file", context={"diff": f"{text}\n{next(turns)}"})

    def split() -> object:
        return [len(line[:1].strip()) for line in f"{text}{next(turns)}".split("\n")]

    assert len(text) > 50_000 - 10_000
    assert ratio(look, split) < 12
