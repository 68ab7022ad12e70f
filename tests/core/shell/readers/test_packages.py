"""Readers of programs that run what packages bring, build a project or run other agents."""

import pytest

from safetyd.core.shell import judge, programs

TABLE = programs.shipped()


@pytest.mark.parametrize(
    "command",
    [
        "uv run -m pytest -q",
        "yarn --cwd web my-script",
        "yarn workspace web my-script",
        "yarn workspaces foreach -A run build",
        "yarn workspaces list",
        "pnpm -w my-script",
        "bun run",
        "bundle exec ./bin/check",
        "pip install -t vendor -r requirements.txt",
        "pip install --dry-run requests",
        "uv pip sync requirements.txt",
        "hyperfine --export-json out.json 'ls src'",
        "concurrently npm:dev 'ls src'",
        "cargo watch -x test -s 'ls src'",
        "make -j4",
        "mvn -DskipTests -Dtest=A test",
        "java -cp : Main",
        "java",
        "gcc -obuild/a a.c @flags.txt",
        "codex mcp list",
        "gh api graphql -f query='query { viewer { login } }'",
    ],
)
def test_what_belongs_to_the_project_passes(command: str) -> None:
    assert judge.read(command, TABLE).stopping == []


@pytest.mark.parametrize(
    "command",
    [
        "uv run",
        "npx",
        "bundle exec nobody-knows",
        "npx -c 'rm -rf src'",
        "npx -p evil tsc",
        "yarn --cwd /tmp my-script",
        "pip install -t /usr/lib requests",
        "pip install",
        "pip install -r /tmp/requirements.txt",
        "pip install -i https://x.example -r requirements.txt",
        "gh api -X DELETE repos/a/b",
        'codex --disable "$X"',
        "java -agentlib:jdwp=x -jar a.jar",
        "java @/tmp/options Main",
        "gcc -B/tmp a.c",
    ],
)
def test_what_comes_from_elsewhere_is_asked_about(command: str) -> None:
    assert judge.read(command, TABLE).stopping


@pytest.mark.parametrize(
    "command",
    [
        "HOME=/tmp claude -p x",
        "export HOME=/tmp; codex exec x",
        "env XDG_CONFIG_HOME=/tmp opencode run x",
        "CODEX_HOME=/tmp true",
        """claude --settings '{"disableAllHooks": true}'""",
        "codex --disable hooks",
        "claude --bare",
    ],
)
def test_another_agent_without_its_hooks_is_blocked(command: str) -> None:
    assert judge.read(command, TABLE).stopping[0].blocks
