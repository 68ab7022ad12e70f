"""OpenCode's settings deny every tool, and only the plugin takes that back."""

import json
from pathlib import Path

import pytest

from safetyd.hosts.hook_command import HookCommand
from safetyd.hosts.host_catalog import HOSTS, Place, SettingsFile
from safetyd.hosts.json_text import NotJson, parse

COMMAND = HookCommand("/usr/bin/python3", "/x/safetyd/hook.py", '/run/"a"/hook.sock', "opencode")
MINE = '{\n  // mine\n  "permission": {"edit": "ask", "bash": {"*": "allow"}},\n}\n'


def files(home: Path, *, project: bool = False) -> tuple[SettingsFile, SettingsFile]:
    place = Place(home, {}, home / "project")
    plugin, settings = HOSTS["opencode"].files("project" if project else "user", place)
    return plugin, settings


def test_the_rule_that_counts_denies_every_tool(tmp_path: Path) -> None:
    _, settings = files(tmp_path)
    permission = parse(settings.protected(MINE, COMMAND))["permission"]  # type: ignore[index]
    assert [*permission.items()][-1] == ("?*", "deny")
    assert [*permission][:-1] == ["edit", "bash"]


@pytest.mark.parametrize("text", [MINE, "{}", '{"permission": {"edit": "ask"}}', '{"a": 1}\n'])
def test_undone_to_the_byte(tmp_path: Path, text: str) -> None:
    _, settings = files(tmp_path)
    protected = settings.protected(text, COMMAND)
    assert settings.mark in protected
    assert settings.protected(protected, COMMAND) == protected
    assert settings.unprotected(protected) == text


def test_one_permission_for_everything_is_refused(tmp_path: Path) -> None:
    _, settings = files(tmp_path)
    with pytest.raises(NotJson):
        settings.protected('{"permission": "allow"}', COMMAND)


def test_the_plugin_has_the_socket_and_the_agent(tmp_path: Path) -> None:
    plugin, _ = files(tmp_path)
    text = plugin.protected("", COMMAND)
    assert f"const SOCKET = {json.dumps(COMMAND.socket)}\n" in text
    assert 'const AGENT = "opencode"\n' in text
    assert 'const TOKEN_FILE = ""\n' in text
    assert '"@' not in text
    assert plugin.mark in text


def test_settings_with_comments_are_preferred(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "opencode"
    assert files(tmp_path)[1].path == folder / "opencode.json"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text("{}")
    assert files(tmp_path)[1].path == folder / "opencode.jsonc"


def test_a_project_has_its_plugin_in_a_folder_of_opencode(tmp_path: Path) -> None:
    plugin, settings = files(tmp_path, project=True)
    project = tmp_path / "project"
    assert plugin.path == project / ".opencode" / "plugin" / "safetyd.js"
    assert settings.path == project / "opencode.json"
