"""The configuration: what is refused and how, and the files that are shipped."""

import re
import tomllib
from pathlib import Path

import msgspec
import nkeys
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.action_types import TypeConfig
from safetyd.core.text.patterns import PatternConfig
from safetyd.daemon.config import Config, ConfigError, load, parse
from tests.checkout import ROOT

CONFIG_DIR = ROOT / "config"
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
PUBLIC = nkeys.from_seed(SEED.encode()).public_key.decode()


def errors(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "my.toml")
    return caught.value.errors


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nodes = 1", "nodes is not a setting; did you mean modes?"),
        ("[bus]\nkey_fiel = ''", "bus.key_fiel is not a setting; did you mean key_file?"),
        ("[audit]\nqqq = 1", "audit.qqq is not a setting; known are max_bytes"),
        ("bus = 3", "bus is 3; it must be a table"),
        ("types = 3", "types is 3; it must be a table"),
        ("[types]\nx = 3", "types.x is 3; it must be a table"),
        ("mode = 'prod'", 'mode is "prod"; it must be one of development, hybrid, production'),
        ("[bus]\nopen_agents = 1", "bus.open_agents is 1; it must be true or false"),
        ("[bus]\nkey_file = true", "bus.key_file is true; it must be a text"),
        (
            "[bus]\nmax_agents = -1",
            "bus.max_agents is -1; it must be a whole number, at least 0 and at most 1000000",
        ),
        (
            "[bus]\nprefix = 'a.*'",
            (
                'bus.prefix is "a.*"; it must be one to four words of A-Z a-z 0-9 _ - separated by '
                "dots, such as safety.v1"
            ),
        ),
        (
            "[bus]\nurl = 'bus.example'\nkey_file = '/k'",
            (
                'bus.url is "bus.example"; it must be a URL such as nats://bus.example:4222, '
                "several of them separated by commas, or empty for an embedded server"
            ),
        ),
        (
            "[web]\nport = 70000",
            "web.port is 70000; it must be a whole number, at least 0 and at most 65535",
        ),
        ("[web]\nhost = ''", 'web.host is ""; it must be a text that is not empty'),
        (
            "[audit]\nmax_bytes = 1.5",
            (
                "audit.max_bytes is 1.5; it must be a whole number, at least 4096 and at most "
                "1099511627776"
            ),
        ),
        ("[stop]\nfiles = ['a', '']", 'stop.files[1] is ""; it must be a text that is not empty'),
        ("[stop]\nfiles = 'a'", 'stop.files is "a"; it must be a list'),
        (
            "[rate]\nattempts_per_second = 99999999999999999999",
            (
                "rate.attempts_per_second is 99999999999999999999; it must be a whole number, at "
                "least 0 and at most 100000"
            ),
        ),
        (
            "[decisions]\nttl_s = 0",
            "decisions.ttl_s is 0; it must be a number, above 0 and at most 86400",
        ),
        (
            "[decisions]\nrecall_s = nan",
            "decisions.recall_s is NaN; it must be a number, at least 0 and at most 604800",
        ),
        (
            "[confidence]\nlow = 70",
            "confidence.low is 70; it must be a number, at least 0 and at most 1",
        ),
        (
            "[confidence]\nrequired_for = ['hi']",
            'confidence.required_for[0] is "hi"; it must be one of high, low, medium, prohibited',
        ),
        (
            "[types.x]\ntier = 'free'",
            (
                'types.x.tier is "free"; it must be one of auto_allowed, prohibited, '
                "requires_permission"
            ),
        ),
        (
            "[gate]\nblocklist_patterns = [3]",
            "gate.blocklist_patterns[0] is 3; it must be a text or a table",
        ),
        (
            "[gate]\nblocklist_patterns = [{name = 'x'}]",
            "gate.blocklist_patterns[0].pattern is missing; it must be a text",
        ),
        (
            "[gate]\nblocklist_patterns = [{name = 'x', pattern = 'x', them = 'allow'}]",
            "gate.blocklist_patterns[0].them is not a setting; did you mean then?",
        ),
        (
            "[gate]\nblocklist_patterns = [{name = 'x', pattern = 'x', then = 'ask'}]",
            (
                'gate.blocklist_patterns[0].then is "ask"; it must be one of allow, '
                "require_confirmation, block"
            ),
        ),
        (
            "[bus]\nurl = 'nats://b:4222'",
            "bus.key_file is empty; with bus.url it must be the path of the daemon's nkey seed",
        ),
        (
            "[bus]\nurl = 'nats://a:4222,b:4222'\nkey_file = '/k'",
            (
                'bus.url is "nats://a:4222,b:4222"; it must be a URL such as '
                "nats://bus.example:4222, several of them separated by commas, or empty for an "
                "embedded server"
            ),
        ),
        (
            "[journal]\nreplicas = 2",
            "journal.replicas is 2; it must be one of 1, 3, 5",
        ),
        (
            "[journal]\nreplicas = 3",
            (
                "journal.replicas is 3; without bus.url it must be 1: the embedded server is not "
                "a cluster"
            ),
        ),
        (
            "[bus]\nkey_file = '/k'",
            (
                'bus.key_file is "/k"; without bus.url it must be empty: the embedded server '
                "has its own key"
            ),
        ),
        (
            f"[bus]\ndaemons = ['{PUBLIC}']",
            "bus.daemons is for daemons that share a bus; without bus.url it must be empty",
        ),
        (
            f"[bus]\nurl = 'nats://b:4222'\nkey_file = '/k'\ndaemons = ['{PUBLIC[:-1]}7']",
            (
                f'bus.daemons: "{PUBLIC[:-1]}7" is not a public key (wrong checksum): copy it '
                "from keys/daemon.pub"
            ),
        ),
    ],
)
def test_a_mistake_is_named_with_file_key_value_and_what_is_allowed(text: str, error: str):
    assert errors(text) == [f"my.toml: {error}"]


def test_a_pattern_that_re2_refuses_is_named_with_its_place_and_text():
    [error] = errors("[gate]\nirreversible_patterns = ['fine', 'a(?=b)']")

    assert error.startswith("my.toml: gate.irreversible_patterns[1]")
    assert "a(?=b)" in error


def test_an_alias_that_leads_nowhere_is_named():
    [error] = errors("[types.Read]\nsame_as = 'raed_file'")

    assert error.startswith("my.toml: types.Read: same_as")
    assert "raed_file" in error


def test_every_mistake_is_named_at_once():
    text = """
    mode = "x"
    [web]
    port = -1
    hots = ""
    [gate]
    shell_patterns = ["("]
    [types.a]
    same_as = "a"
    """

    keys = [error.split(" ")[1].rstrip(":") for error in errors(text)]

    assert keys == ["mode", "web.port", "web.hots", "gate.shell_patterns[0]", "types.a"]


def test_what_is_not_toml_is_named_with_its_line():
    [error] = errors("mode = \n")

    assert error.startswith("my.toml: not TOML: ")
    assert "line 1" in error


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "none.toml")

    assert caught.value.errors == [
        f"{tmp_path / 'none.toml'}: cannot read the file: No such file or directory"
    ]


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path):
    path = tmp_path / "latin.toml"
    path.write_bytes(b"mode = '\xe9'")

    with pytest.raises(ConfigError, match="not UTF-8: invalid continuation byte at byte 8"):
        load(path)


@pytest.mark.parametrize(
    "text",
    [f"[bus]\nkey_file = '{SEED}'", f"[web]\nport = '{SEED}'"],
)
def test_a_secret_in_the_wrong_place_is_not_repeated(text: str):
    assert SEED not in "\n".join(errors(text))


def test_a_password_in_an_address_is_not_repeated():
    [error] = errors("[bus]\nurl = 'http://me:hunter2@bus'\nkey_file = '/k'")

    assert "hunter2" not in error
    assert "***@bus" in error


def test_a_long_value_is_cut():
    [error] = errors(f"mode = '{'x' * 1000}'")

    assert len(error) < 200


def test_without_a_file_there_are_defaults():
    assert load(None) == parse("", "empty.toml") == Config()


def test_the_policy_holds_what_the_rules_need():
    config = parse("mode = 'hybrid'\n[bus]\nmax_agents = 7\n[types.x]\nrisk = 'low'", "my.toml")

    policy = config.policy()

    assert (policy.mode, policy.max_agents) == ("hybrid", 7)
    assert policy.types == {"x": TypeConfig(risk="low")}


_keys = st.sampled_from(
    ["mode", "bus", "url", "port", "types", "gate", "shell_patterns", "a.b", "", "name", "web"]
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_keys, _values))
def test_any_table_is_taken_or_refused_with_words(table: dict[str, object]):
    text = "\n".join(f"{_toml(key)} = {_toml(value)}" for key, value in table.items())

    assert all(error.startswith("my.toml: ") for error in _refusal(text))


def _refusal(text: str) -> list[str]:
    try:
        parse(text, "my.toml")
    except ConfigError as refused:
        return refused.errors
    return []


def _toml(value: object) -> str:
    match value:
        case None:
            return "1979-05-27"
        case dict():
            return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case float():
            return repr(value)
        case _:
            return msgspec.json.encode(value).decode()


def test_the_shipped_file_says_exactly_the_defaults():
    assert load(CONFIG_DIR / "safetyd.toml") == Config()


def test_the_shipped_file_has_every_setting():
    text = (CONFIG_DIR / "safetyd.toml").read_text()
    table = tomllib.loads(text)
    aside = set(re.findall(r"^# (\w+) = ", text, re.MULTILINE))

    for name, section in msgspec.structs.asdict(Config()).items():
        if isinstance(section, msgspec.Struct):
            if name == "shell":  # a table of tables, and the digest of what is shipped
                assert f"# [{name}.programs." in text
                continue
            given_ = set(table[name])
            unset = {
                key
                for key, value in msgspec.structs.asdict(section).items()
                if value in (None, msgspec.UNSET)
            }
            lists = set(re.findall(rf"^# \[\[{name}\.(\w+)\]\]", text, re.MULTILINE))
            assert set(section.__struct_fields__) == given_ | (unset & aside) | lists, name
        else:
            assert name in table or f"# [[{name}]]" in text or f"# [{name}." in text
    assert set(TypeConfig.__struct_fields__) <= aside
    assert set(PatternConfig.__struct_fields__) <= set(re.findall(r"\w+", text))


def test_the_shipped_file_has_every_setting_of_tables_within_tables():
    table = tomllib.loads((CONFIG_DIR / "safetyd.toml").read_text())

    for name in ("rate", "anomaly", "notifications", "people"):
        defaults = msgspec.to_builtins(getattr(Config(), name))
        defaults.pop("apprise", None)
        defaults.get("rota", {}).pop("shifts", None)
        assert _shape(table[name]) == _shape(defaults), name


def _shape(table: object) -> object:
    return {key: _shape(value) for key, value in table.items()} if isinstance(table, dict) else None


def test_every_setting_of_the_shipped_file_that_is_left_out_can_be_put_in():
    text = (CONFIG_DIR / "safetyd.toml").read_text()
    put_in = re.sub(
        r"^# (?=\w+ = |\[(types|agents|projects|shell|\[recipients|\[notif|\[people))",
        "",
        text,
        flags=re.MULTILINE,
    )

    config = parse(put_in, "safetyd.toml")

    assert set(config.types) == {"my_action", "look_into"}
    assert set(config.agents) == {"nightly"}
    assert set(config.projects) == {"web"}
    assert [person.name for person in config.recipients] == ["alice"]
    assert "team" in dict(config.notifications.channels())
    assert None not in {
        config.projects["web"].gate.expected_app,
        config.projects["web"].budget.session_usd,
    }
    assert config.gate.expected_app


@pytest.mark.req("S3.60")
def test_mistakes_in_a_project_are_named_with_their_full_keys():
    text = """
        [projects.web]
        root = "web"
        file = "web.toml"
        gate.shell_patterns = ["a", "("]
        rules.custom = [{ name = "x", then = "block", when = { hours = "9" } }]
    """

    keys = [error.split(": ")[1] for error in errors(text)]

    assert keys == [
        "projects.web.gate.shell_patterns[1]",
        "projects.web.root",
        "projects.web.file",
        "projects.web.rules.custom[0].when.hours",
    ]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("budget.day_usd = 1", "projects.web.budget.day_usd is not a setting; did you mean"),
        ("gate.loop_counts = 'states'", "projects.web.gate.loop_counts is not a setting;"),
        ("confidence.low = 2", "projects.web.confidence.low is 2; it must be a number"),
        ("commit_deadline_s = 0", "projects.web.commit_deadline_s is 0; it must be a number"),
        ("commit_deadline_s = 301", "projects.web.commit_deadline_s is 301; it must be a number"),
        ("commit_deadline_s = nan", "projects.web.commit_deadline_s is NaN; it must be a number"),
        ("history = 'shadow'", 'projects.web.root is ""'),
        (
            "root = '/srv'\nhistory = 'shadow'\n[projects.in]\nroot = '/srv/x'\nhistory = 'shadow'",
            "projects.web.root and projects.in.root overlap",
        ),
        (
            "root = '/srv/web'\nhistory = 'branch'",
            'projects.web.history is "branch"',
        ),
        (
            "default = true\n[projects.api]\ndefault = true",
            "projects.web.default and projects.api.default are both true",
        ),
        ("from_file = {}", "projects.web.from_file is not a setting;"),
        ("file_broken = ''", "projects.web.file_broken is not a setting;"),
    ],
)
def test_a_project_has_only_settings_of_its_own(line, error):
    (said,) = errors(f"[projects.web]\n{line}")

    assert error in said


def test_production_hears_only_agents_with_a_key():
    assert load(CONFIG_DIR / "production.toml").bus.open_agents is False
