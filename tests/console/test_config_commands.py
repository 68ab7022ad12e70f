import json
import tomllib

import jsonschema
import msgspec
import pytest

from safetyd.config import Config
from tests.conftest import safetyd


def test_a_right_file_is_said_to_be_right(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text('mode = "hybrid"\n')

    said = safetyd("config", "check", str(path))

    assert (said.returncode, said.stdout) == (0, f"{path} is right.\n")


def test_every_mistake_is_named(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text('mode = "party"\n[web]\nprot = 1\n')

    said = safetyd("config", "check", str(path))

    assert said.returncode == 1
    assert "mode is" in said.stderr
    assert "web.prot is not a setting; did you mean port?" in said.stderr


@pytest.mark.parametrize("content", ["mode = ", None])
def test_an_unreadable_file_is_named(tmp_path, content):
    path = tmp_path / "safetyd.toml"
    if content is not None:
        path.write_text(content)

    said = safetyd("config", "check", "--json", str(path))

    assert said.returncode == 1
    assert json.loads(said.stdout)["code"] == "config"


def test_show_prints_every_setting_in_force(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text('mode = "hybrid"\n')

    shown = tomllib.loads(safetyd("config", "show", str(path)).stdout)
    machine = json.loads(safetyd("config", "show", str(path), "--json").stdout)

    assert shown["mode"] == machine["mode"] == "hybrid"
    assert msgspec.convert(shown, Config) == msgspec.convert(machine, Config)
    assert machine["web"]["port"] == 8787


def test_the_schema_judges_the_defaults_right_and_a_mistake_wrong():
    schema = json.loads(safetyd("config", "schema").stdout)
    defaults = json.loads(safetyd("config", "show", "--json").stdout)

    jsonschema.validate(defaults, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"mode": "party"}, schema)
