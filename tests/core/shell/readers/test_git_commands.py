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


@pytest.mark.parametrize(
    ("command", "passes"),
    [
        ("git", True),
        ("git -C", True),
        ("git --exec-path", True),
        ("git clone", True),
        ("git -c credential.helper= fetch", True),
        ("git -c credential.helper=store fetch", False),
        ("git -c core.pager= log", True),
        ("git -c core.fsmonitor=false status", True),
        ("git -c core.editor='rm -rf src' commit", False),
        ("git -c alias.st=status status", True),
        ("git -c alias.x='reset --hard' status", False),
        ("git --config-env=core.pager=X log", False),
        ("git --config-env core.abbrev=X log", True),
        ("git --git-dir=.git --work-tree=. status", True),
        ("git --work-tree=/ status", False),
        ("git config user.name", True),
        ("git config list", True),
        ("git config", True),
        ("git config set user.name me", True),
        ("git config set core.hooksPath x", False),
        ("git config unset user.name", True),
        ("git config --unset core.hooksPath", True),
        ("git config edit", False),
        ('git config "$KEY" value', False),
        ("git clone -u 'rm -rf src' x.example:y", False),
        ("git clone https://x.example/y.git", True),
        ("cd ~ && git clone https://x.example/y.git", False),
        ("git checkout 'src/*.py'", False),
        ("git checkout src/*.py", False),
        ("git checkout v1.2.x", True),
        ("git checkout docs/", False),
        ('git checkout "$X"', True),
        ('git checkout "$X/a"', False),
        ('git checkout "$(cat name)"', False),
        ('for f in *.py; do git checkout "$f"; done', False),
        ("git submodule foreach", True),
        ("git grep -e pattern", True),
        ("git grep", True),
    ],
)
def test_settings_files_and_addresses_are_looked_at(command: str, *, passes: bool) -> None:
    assert strictest(command).passes is passes


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
