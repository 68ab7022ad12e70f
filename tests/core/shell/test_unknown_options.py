"""Words that are not known may be options: programs whose options do harm are stopped then."""

import pytest

from tests.core.shell.verdicts import verdict


@pytest.mark.parametrize(
    "command",
    [
        "tar tf a.tar $(cat opts)",
        "git log $(cat opts)",
        "git log $OPTIONS",
        "git log --$X",
        "sed -n p $(cat opts)",
        "awk '{print $1}' $(cat opts)",
        "sort $(cat opts)",
        "gcc $(cat opts) a.c",
        "rg foo $(cat opts)",
        "x=$(cat opts); git diff $x",
        'o=(--output=/etc/x); o+=(y); git log "${o[@]}"',
        'o=(--output=/etc/x); git log "${o[@]}"',
        "for f in $(cat list); do git log $f; done",
        "cat list | xargs git log",
        "cat list | xargs sort",
        "git diff $(git rev-parse --output=x)",
        "git diff $(git rev-parse -- --output=x)",
        "git show $(git log -1 --format=%s)",
        "git log $(git branch)",
        "go vet $(go list -f x ./...)",
        "docker inspect $(docker ps --format '{{.Names}}')",
        "docker inspect $(docker ps -q $X)",
        "git push --dry-run $(cat opts)",
    ],
)
def test_options_out_of_a_file_are_asked_about(command: str) -> None:
    assert verdict(command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "grep -n foo $(git ls-files)",
        "wc -l $(find . -name '*.py')",
        "wc -l $(cat list)",
        "ls $(dirname x)",
        "cat list | xargs grep foo",
        "cat list | xargs wc -l",
        "timeout $LIMIT ls",
        "python3 x.py $(cat arguments)",
        "git log -- $(cat files)",
        "sort -- $(cat files)",
        'git log "$BRANCH"',
        "git log -n $COUNT",
        "git add $(cat files)",
        "gcc $CFLAGS a.c -o a",
        "gcc $(pkg-config --cflags gtk) a.c -o a",
        "sed -i 's/a/b/' $(grep -rl a src)",
        "git ls-files | xargs sed -i 's/a/b/'",
        "ruff check $(git diff --name-only)",
        "git diff $(git merge-base main HEAD)",
        "git log $(git describe --tags --abbrev=0)..HEAD",
        "git show $(git log -1 --format=%H)",
        "x=$(git rev-parse HEAD); git show $x",
        'a=(src tests); ruff check "${a[@]}"',
        'a=(x y); for i in "${a[@]}"; do git log "$i"; done',
        'for i in "${a[@]}"; do git log "$i"; done',
        "git push --dry-run origin $(git branch --show-current)",
        "docker inspect $(docker ps -q)",
        "kubectl logs $(kubectl get pods -o name | head -1)",
        "go test $(go list ./... | grep -v vendor)",
    ],
)
def test_names_and_programs_that_only_look_pass(command: str) -> None:
    assert verdict(command) == "pass"
