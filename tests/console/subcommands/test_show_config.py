import json
import re
import tomllib
from pathlib import Path

import jsonschema
import msgspec
import pytest

from safetyd.daemon.config import Config
from tests.conftest import safetyd
from tests.console.console_rig import here


def test_a_right_file_is_said_to_be_right(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text('mode = "hybrid"\n')

    said = safetyd("config", "check", str(path))

    assert (said.returncode, said.stdout) == (0, f"{path}: OK\n")


def test_every_mistake_is_named(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text('mode = "party"\n[web]\nprot = 1\n')

    said = here("config", "check", str(path))
    answer = json.loads(here("config", "check", "--json", str(path)).stdout)

    assert said.returncode == 1
    assert "web.prot is not a setting; did you mean port?" in said.stderr
    assert (answer["ok"], answer["code"]) == (False, "config")
    assert [error.split()[1] for error in answer["errors"]] == ["mode", "web.prot"]


@pytest.mark.parametrize("content", ["mode = ", None])
def test_an_unreadable_file_is_named(tmp_path, content):
    path = tmp_path / "safetyd.toml"
    if content is not None:
        path.write_text(content)

    said = here("config", "check", "--json", str(path))

    assert said.returncode == 1
    assert json.loads(said.stdout)["code"] == "config"


def test_show_prints_every_setting_in_force(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text('mode = "hybrid"\n')

    shown = tomllib.loads(here("config", "show", str(path)).stdout)
    machine = json.loads(here("config", "show", str(path), "--json").stdout)

    assert shown["mode"] == machine["mode"] == "hybrid"
    assert msgspec.convert(shown, Config) == msgspec.convert(machine, Config)
    assert machine["web"]["links_port"] == 8788


def test_show_tells_a_port_that_is_set_from_one_that_may_give_way(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text("[web]\nport = 8787\n")

    chosen, left = here("config", "show", str(path)), here("config", "show")

    assert "\nport = 8787\n" in chosen.stdout
    assert "# web.port" not in chosen.stdout
    assert "# web.port is not set: 8787, " in left.stdout
    assert json.loads(here("config", "show", "--json").stdout)["web"]["port"] is None


def test_the_schema_judges_the_defaults_right_and_a_mistake_wrong():
    schema = json.loads(here("config", "schema").stdout)
    defaults = json.loads(here("config", "show", "--json").stdout)

    jsonschema.validate(defaults, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"mode": "party"}, schema)


def web(tmp_path, file: str) -> str:
    path = tmp_path / "safetyd.toml"
    (tmp_path / "web.toml").write_text(file)
    path.write_text(f'[projects.web]\nfile = "{tmp_path}/web.toml"\nbudget.chain_usd = 2\n')
    return str(path)


@pytest.mark.req("S3.60")
def test_a_broken_file_of_a_project_is_a_warning(tmp_path):
    path = web(tmp_path, '"\\u001b[2J" = 1')

    said = here("config", "check", path)
    answer = json.loads(here("config", "check", "--json", path).stdout)

    assert (said.returncode, said.stdout) == (0, f"{path}: OK\n")
    assert said.stderr.startswith(
        f"safetyd: warning: projects.web.file: {tmp_path}/web.toml: ?[2J is not a setting"
    )
    assert answer["ok"]
    assert len(answer["warnings"]) == 1


def test_show_says_what_a_projects_file_adds(tmp_path):
    path = web(tmp_path, "[budget]\nchain_usd = 1")

    shown = here("config", "show", path).stdout
    machine = json.loads(here("config", "show", path, "--json").stdout)

    assert msgspec.convert(tomllib.loads(shown), Config).projects["web"].budget.chain_usd == 2
    assert re.search(rf"^# {tmp_path}/web\.toml .* \[projects\.web\]:$", shown, re.MULTILINE)
    assert "# chain_usd = 1.0\n" in shown
    assert machine["projects"]["web"]["from_file"]["budget"]["chain_usd"] == 1


def test_show_says_that_a_projects_file_is_broken(tmp_path):
    shown = here("config", "show", web(tmp_path, "x = ")).stdout

    assert "# everything in [projects.web] needs approval: " in shown
    assert "not TOML" in shown


def test_a_secret_that_is_not_there_is_named_with_what_to_do(tmp_path):
    path, data = tmp_path / "safetyd.toml", tmp_path / "data"
    path.write_text(
        '[notifications.webhook]\nenabled = true\nurl = "http://127.0.0.1:9/"\n'
        'secret_file = "hook.secret"\n[outlets.postgres]\ndsn_file = "postgres.dsn"\n'
    )

    missing = here("config", "check", str(path), "--data-dir", str(data))
    data.mkdir()
    (data / "postgres.dsn").write_text("dbname=safetyd\n")
    (data / "hook.secret").write_text("whsec_c2FmZXR5ZC10ZXN0LXNlY3JldC0wMDAx\n")
    there = here("config", "check", str(path), "--data-dir", str(data))

    assert missing.stdout == f"{path}: OK, but 2 secrets cannot be read\n"
    assert f"outlets.postgres.dsn_file: cannot read {data / 'postgres.dsn'}" in missing.stderr
    assert f"notifications.webhook.secret_file: cannot read {data / 'hook.secret'}" in (
        missing.stderr
    )
    assert there.stdout == f"{path}: OK\n"


def test_accounts_are_those_of_the_file_that_a_start_reads(tmp_path):
    (tmp_path / "safetyd.toml").write_text('[bus]\nprefix = "shop.v1"\n')

    said = here("nats-config", "--data-dir", str(tmp_path))

    assert "shop.v1.propose" in said.stdout
    assert "safety.v1" not in said.stdout


def with_history(folder: Path, root: str) -> Path:
    path = folder / "safetyd.toml"
    path.write_text(f'[projects.shop]\nroot = "{root}"\nhistory = "shadow"\n')
    return path


def test_a_history_that_cannot_be_kept_is_a_warning(tmp_path: Path) -> None:
    path = with_history(tmp_path, f"{tmp_path}/gone")

    said = here("config", "check", str(path))
    without_git = here("config", "check", str(path), PATH=str(tmp_path))

    assert said.stdout == f"{path}: OK\n"
    assert f"warning: projects.shop.history: {tmp_path}/gone does not exist" in said.stderr
    assert "projects.shop.history: git is not in PATH; install git" in without_git.stderr


@pytest.mark.parametrize("root", ["", "shop"])
def test_a_history_needs_a_path_from_the_root(tmp_path: Path, root: str) -> None:
    said = here("config", "check", str(with_history(tmp_path, root)))

    assert said.returncode == 1
    assert f'projects.shop.root is "{root}"' in said.stderr


def test_a_history_that_can_be_kept_is_right(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    data = tmp_path / "data"

    said = here(
        "config",
        "check",
        str(with_history(tmp_path, f"{tmp_path}/shop")),
        SAFETYD_DATA_DIR=str(data),
    )

    assert (said.returncode, said.stderr) == (0, "")
    assert not data.exists(), "a check makes nothing"


def test_without_a_file_the_data_directorys_own_is_checked(tmp_path):
    empty = here("config", "check", "--data-dir", str(tmp_path))
    (tmp_path / "safetyd.toml").write_text("mod = 1\n")
    wrong = here("config", "check", "--data-dir", str(tmp_path))

    assert (empty.returncode, empty.stdout) == (
        0,
        "No configuration file; the defaults are used.\n",
    )
    assert wrong.returncode == 1
    assert "mod" in wrong.stderr
