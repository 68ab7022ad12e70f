import pytest

from safetyd.core.shell import judge, programs
from safetyd.core.shell.reading import Access, Effect, Finding


def findings(command: str) -> tuple[Finding, ...]:
    return judge.read(command, programs.shipped()).findings


def strictest(command: str) -> Finding:
    return max(findings(command), key=lambda found: (found.blocks, found.effect.rank))


@pytest.mark.parametrize(
    ("command", "effect", "remote"),
    [
        ("git push", Effect.LEAVES, None),
        ("git push origin main", Effect.LEAVES, "origin"),
        ("git -C sub push --repo upstream", Effect.LEAVES, "upstream"),
        ("git push -o ci.skip origin", Effect.LEAVES, "origin"),
        ('git push "$REMOTE" main', Effect.LEAVES, None),
        ("git push -f origin", Effect.IRREVERSIBLE, "origin"),
        ("git push origin +main", Effect.IRREVERSIBLE, "origin"),
        ("git push origin :topic", Effect.IRREVERSIBLE, "origin"),
        ("git push origin -d topic", Effect.IRREVERSIBLE, "origin"),
    ],
)
def test_a_push_names_its_remote(command: str, effect: Effect, remote: str | None) -> None:
    found = strictest(command)
    assert (found.effect, found.type, found.remote) == (effect, "push", remote)
    assert found.program == "git push"
    assert "--dry-run" in found.remedy


def test_a_folder_before_the_verb_is_where_paths_begin() -> None:
    assert strictest("git -C /srv diff --output=x").effect is Effect.IRREVERSIBLE
    assert strictest("git -C /tmp diff --output=x").effect is Effect.WORK
    assert strictest('git -C "$X" diff --output=x').effect is Effect.IRREVERSIBLE


def test_files_of_another_revision_are_files_that_are_read() -> None:
    touched = {(t.path, t.access) for f in findings("git show HEAD:.env") for t in f.touches}
    assert (".env", Access.READ) in touched


def test_a_pattern_is_no_file() -> None:
    touched = {t.path for f in findings("git grep -n id_rsa src") for t in f.touches}
    assert touched == {"src"}


def test_removed_files_are_deleted() -> None:
    touched = {(t.path, t.access) for f in findings("git rm a.py") for t in f.touches}
    assert ("a.py", Access.DELETE) in touched
    assert not any(t.access is Access.DELETE for f in findings("git rm -n a") for t in f.touches)
