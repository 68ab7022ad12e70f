import json
import tomllib

import jsonschema
import msgspec
import pytest

from safetyd.config import Config
from tests.conftest import safetyd
from tests.console.here import here


def test_a_right_file_is_said_to_be_right(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text('mode = "hybrid"\n')

    said = safetyd("config", "check", str(path))

    assert (said.returncode, said.stdout) == (0, f"{path} is right.\n")


def test_every_mistake_is_named(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text('mode = "party"\n[web]\nprot = 1\n')

    said = here("config", "check", str(path))

    assert said.returncode == 1
    assert "mode is" in said.stderr
    assert "web.prot is not a setting; did you mean port?" in said.stderr


def test_programs_get_mistakes_one_by_one(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text('mode = "party"\n[web]\nprot = 1\n')

    answer = json.loads(here("config", "check", "--json", str(path)).stdout)

    assert (answer["ok"], answer["code"]) == (False, "config")
    assert [error.split()[1] for error in answer["errors"]] == ["mode", "web.prot"]


def test_show_says_that_it_is_not_about_a_running_daemon():
    assert "A running daemon may have been started with another file" in " ".join(
        here("config", "show", "--help").stdout.split()
    )


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
    assert machine["web"]["port"] == 8787


def test_the_schema_judges_the_defaults_right_and_a_mistake_wrong():
    schema = json.loads(here("config", "schema").stdout)
    defaults = json.loads(here("config", "show", "--json").stdout)

    jsonschema.validate(defaults, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"mode": "party"}, schema)
