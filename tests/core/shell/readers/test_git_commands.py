"""The reader of git: remotes, folders, and files that a command reads or deletes."""

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
        ("git push --repo origin upstream", Effect.LEAVES, "upstream"),
        ("git -C /srv/other push origin main", Effect.LEAVES, None),
        ("cd /srv/other && git push origin", Effect.LEAVES, None),
        ("git push -f origin", Effect.IRREVERSIBLE, "origin"),
        ("git push origin +main", Effect.IRREVERSIBLE, "origin"),
        ("git push origin :topic", Effect.IRREVERSIBLE, "origin"),
        ("git push origin -d topic", Effect.IRREVERSIBLE, "origin"),
    ],
)
def test_the_finding_for_a_push_names_the_remote(
    command: str, effect: Effect, remote: str | None
) -> None:
    found = strictest(command)
    assert (found.effect, found.type, found.remote) == (effect, "push", remote)
    assert found.program == "git push"
    assert "--dry-run" in found.remedy


def test_paths_start_in_the_folder_of_the_option_before_the_verb() -> None:
    assert strictest("git -C /srv diff --output=x").effect is Effect.IRREVERSIBLE
    assert strictest("git -C /tmp diff --output=x").effect is Effect.WORK
    assert strictest('git -C "$X" diff --output=x').effect is Effect.IRREVERSIBLE


def test_showing_a_file_of_a_revision_reads_that_file() -> None:
    touched = {(t.path, t.access) for f in findings("git show HEAD:.env") for t in f.touches}
    assert (".env", Access.READ) in touched


def test_the_pattern_of_git_grep_is_not_taken_for_a_file() -> None:
    touched = {t.path for f in findings("git grep -n id_rsa src") for t in f.touches}
    assert touched == {"src"}


def test_git_rm_deletes_files_except_in_a_dry_run() -> None:
    touched = {(t.path, t.access) for f in findings("git rm a.py") for t in f.touches}
    assert ("a.py", Access.DELETE) in touched
    assert not any(t.access is Access.DELETE for f in findings("git rm -n a") for t in f.touches)
