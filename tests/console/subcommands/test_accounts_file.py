"""`safetyd nats-accounts --once`, with and without shared keys."""

from pathlib import Path

import anyio
import pytest

from safetyd.bus.keyring import Keyring, public_key, seed_in
from safetyd.bus.shared_keys import SharedKeys
from safetyd.bus.subjects import Subjects
from tests.console.console_rig import here
from tests.nats_process import NatsProcess
from tests.servers import connected

JETSTREAM = 'jetstream {{ store_dir: "{}" }}\n'


@pytest.mark.parametrize("shared", [True, False])
def test_accounts_are_written_only_after_a_daemon_has_shared_its_keys(
    tmp_path: Path, *, shared: bool
) -> None:
    keyring = Keyring(tmp_path / "keys")
    keyring.make_own()
    keyring.add("agents", "code")
    bus = NatsProcess(tmp_path, JETSTREAM.format(tmp_path / "store"))
    public, out = public_key(keyring.daemon), tmp_path / "accounts.conf"
    config = tmp_path / "safetyd.toml"
    config.write_text(
        f'[bus]\nurl = "{bus.url}"\nkey_file = "{keyring.daemon}"\ndaemons = ["{public}"]\n'
    )

    async def share() -> None:
        async with connected(bus.url) as client:
            await SharedKeys(
                client,
                Subjects(),
                tmp_path / "keys",
                seed=seed_in(keyring.daemon),
                daemons=(public,),
                take_on=lambda _by: [],
            ).begin()

    if shared:
        anyio.run(share)
    said = here("nats-accounts", "--once", "--config", str(config), "--out", str(out))
    bus.stop()

    assert (said.returncode, out.exists()) == ((0, True) if shared else (1, False))
    if shared:
        wanted = (public, public_key(keyring.operator), dict(keyring.public("agents"))["code"])
        assert all(key in out.read_text() for key in wanted)


def test_without_bus_daemons_the_error_names_the_setting(tmp_path: Path) -> None:
    out = tmp_path / "accounts.conf"

    said = here("nats-accounts", "--once", "--data-dir", str(tmp_path), "--out", str(out))

    assert said.returncode == 1
    assert "bus.daemons" in said.stderr
