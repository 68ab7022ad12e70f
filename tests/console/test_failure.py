"""What a command says where packages of the daemon are missing."""

import pytest

from safetyd.console.failure import NotInstalled, need, packages_needed


def test_a_module_that_is_not_installed_is_named_with_what_to_type():
    need("demo", "json", "click")

    with pytest.raises(NotInstalled) as raised:
        need("demo", "json", "no_such_package")

    assert "no_such_package" in raised.value.message
    assert "pip install 'safetyd[daemon]'" in raised.value.message
    assert (raised.value.code, raised.value.exit_code) == ("not_installed", 1)


def test_what_a_command_fails_to_import_is_named_by_its_package():
    with (
        pytest.raises(NotInstalled, match="`safetyd run` needs the package aiohttp,"),
        packages_needed("run"),
    ):
        raise ModuleNotFoundError("No module named 'aiohttp.web'", name="aiohttp.web")


@pytest.mark.parametrize("name", ["safetyd.console.nowhere", None])
def test_a_fault_of_our_own_is_not_blamed_on_the_installation(name):
    with pytest.raises(ModuleNotFoundError), packages_needed("run"):
        raise ModuleNotFoundError("No module", name=name)
