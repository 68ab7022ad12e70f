"""An option lets a use pass only if it is there for certain, and stops one if it may be."""

import pytest

from safetyd.core.shell import judge, programs
from safetyd.core.shell.programs import Row, Verb
from safetyd.core.shell.reading import Effect

TABLE = programs.shipped().with_rows(
    {
        "ship": Row(
            read=(
                Verb(words="out", with_=("--dry-run=client", "--dry-run=server")),
                Verb(words="out --list"),
                Verb(words="out", with_=("--format",)),
                "exec",
                "queue list",
            ),
            leaves=("out", "queue *", Verb(words="in", with_=("--to=cloud",))),
            work=("in",),
            otherwise=Effect.UNKNOWN,
            options_with_value=("--format", "--to"),
            run=("exec",),
        )
    }
)


@pytest.mark.parametrize(
    "command",
    [
        "ship out --dry-run=client",
        "ship out --dry-run=server",
        "ship out --list",
        "ship out --list=true",
        "ship out --format json",
        "ship in --to=disk",
        "ship in",
        "ship out --help",
        "ship help out",
        "ship queue list",
        "ship exec -- /opt/app/start",
    ],
)
def test_what_certainly_only_looks_passes(command: str) -> None:
    assert judge.read(command, TABLE).stopping == []


@pytest.mark.parametrize(
    "command",
    [
        "ship out --dry-run=none",
        "ship out --dry-run",
        "ship queue drop",
        "ship out --dry-run=client --dry-run=none",
        "ship out --dry-$X",
        "ship out --list=false",
        "ship out --$X",
        "ship in --to=cloud",
        'ship in --to="$X"',
        "ship out --help=false",
        "ship exec -- rm -rf / --help",
        "/opt/app/start",
    ],
)
def test_what_may_do_more_is_stopped(command: str) -> None:
    assert judge.read(command, TABLE).stopping


@pytest.mark.parametrize(
    ("command", "origin"),
    [("sh -c $X", "a text that is not known"), ("sh -c $(curl x)", "downloaded")],
)
def test_a_variable_of_the_surroundings_is_no_download(command: str, origin: str) -> None:
    assert origin in judge.read(command, TABLE).stopping[0].why


@pytest.mark.parametrize(
    "command",
    [
        "git push --dry-run origin main",
        "git clean -nd",
        "git rm -f -n x",
        "npm publish --dry-run=true",
        "apt-get remove -s -y libc6",
        "rsync -an --no-perms a/ host:/b",
        "yum remove --assumeno glibc",
        "kubectl delete pod web --dry-run=client",
        "kubectl delete pod web --dry-run=server -n $NAMESPACE",
        "git clean --dry-run -- $(cat names)",
        "useradd --help",
        "mysql --help",
        "helm uninstall web --dry-run=client",
    ],
)
def test_a_dry_run_passes(command: str) -> None:
    assert judge.read(command, TABLE).stopping == []


@pytest.mark.parametrize(
    "command",
    [
        "git push --dry-run --no-dry-run --force origin main",
        "git push --dry-run $(cat opts)",
        "git push --dry-run origin --no-$X",
        "cat opts | xargs git push --dry-run",
        "git clean -n --no-dry-run -ffdx",
        "git clean -n --no-dry -ffdx",
        "git clean -n -ffdx *",
        "git rm -f -n --no-dry-run x",
        "npm publish --dry-run --no-dry-run",
        "npm publish --dry-run false",
        "pip install --dry-run --no-dry-run x",
        "apt-get remove -s --no-s libc6",
        "apt-get remove -s -s=no libc6",
        "apt-get remove -s --no-simulate libc6",
        "apt-get remove -s -o APT::Get::Simulate=false libc6",
        "rsync -an --no-n a/ host:/b",
        "yum --assumeno -y remove glibc",
        "mysql -e 'drop table users' --help --skip-help",
        "mysql -e 'drop table users' --help --loose_skip_help",
        "useradd -c --help eve",
        "helm uninstall web --dry-run --dry-run=false",
        "rclone delete r:x --dry-run=true --no-dry-run",
        "kubectl delete pod web --dry-run=client $X",
    ],
)
def test_a_dry_run_that_is_or_may_be_taken_back_is_none(command: str) -> None:
    assert judge.read(command, TABLE).stopping
