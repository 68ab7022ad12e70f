import pytest

from safetyd.daemon.config import ConfigError, parse

SECRET = "hunter2"


def errors(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse(f"[outlets.postgres]\n{text}\n", "file")
    return str(raised.value)


@pytest.mark.parametrize(
    "address",
    [f"postgresql://u:{SECRET}@db/x", f"host=db password={SECRET}"],
)
def test_an_address_in_the_configuration_is_refused_and_not_repeated(address: str) -> None:
    assert "dsn is not a setting; known are batch, dsn_file, schema" in errors(f'dsn = "{address}"')
    said = errors(f'dsn_file = "{address}"')
    assert "dsn_file is an address" in said
    assert SECRET not in said


@pytest.mark.parametrize("name", ["", "pg_x", "Events", "x;y", "x" * 51, 'a"b'])
def test_a_schema_has_a_plain_name(name: str) -> None:
    assert "lower-case letters, digits and _" in errors(f"schema = '{name}'")


def test_nothing_goes_anywhere_unless_it_is_set() -> None:
    assert parse("", "file").outlets.postgres.dsn_file == ""
