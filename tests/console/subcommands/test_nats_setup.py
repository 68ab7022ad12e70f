import subprocess
from pathlib import Path

import pytest

from safetyd.bus.embedded_server import shipped_binary
from safetyd.bus.keyring import new_pair
from safetyd.bus.server_config import MAX_STORE_BYTES
from tests.console.console_rig import Said, here

NODES = (
    "--node",
    "x=127.0.0.1",
    "--node",
    "y=127.0.0.1:4223:6223",
    "--node",
    "z=127.0.0.1:4224:6224",
)


def nats_config(directory: Path, *options: str) -> Said:
    return here("nats-config", "--data-dir", str(directory / "data"), *options)


def test_every_node_accepts_the_file_that_is_written_for_it(tmp_path: Path) -> None:
    out = tmp_path / "nats"

    said = nats_config(tmp_path, "--cluster", "--out", str(out), *NODES)

    names = {"x.conf", "y.conf", "z.conf", "routes.conf", "accounts.conf"}
    assert said.returncode == 0, said.stderr
    assert {path.name for path in out.iterdir()} == names
    for name in ("x", "y", "z"):
        command = [str(shipped_binary()), "-t", "-c", str(out / f"{name}.conf")]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        assert tried.returncode == 0, tried.stderr
    assert (out / "routes.conf").stat().st_mode & 0o777 == 0o600
    password = (out / "routes.conf").read_text().split('password: "')[1].split('"')[0]
    assert all(password not in (out / name).read_text() for name in names - {"routes.conf"})
    url = "nats://127.0.0.1:4222,nats://127.0.0.1:4223,nats://127.0.0.1:4224"
    assert url in (out / "x.conf").read_text()


def test_later_run_keeps_the_password_between_the_nodes(tmp_path: Path) -> None:
    out, routes = tmp_path / "nats", tmp_path / "nats/routes.conf"
    nats_config(tmp_path, "--cluster", "--out", str(out))
    before = routes.read_text()

    nats_config(tmp_path, "--cluster", "--out", str(out))

    assert routes.read_text() == before


def test_without_a_directory_all_files_are_printed(tmp_path: Path) -> None:
    said = nats_config(tmp_path, "--cluster")

    assert said.stdout.count("# ---- ") == 5
    assert said.stdout.count("sync_interval: always") == 3
    assert f"max_file: {3 * MAX_STORE_BYTES}," in said.stdout


@pytest.mark.parametrize("replicas", [1, 5])
def test_account_has_room_for_the_replicas_that_the_daemon_wants(
    tmp_path: Path, replicas: int
) -> None:
    config = tmp_path / "safetyd.toml"
    bus = '[bus]\nurl = "nats://127.0.0.1:4222"\nkey_file = "{}"\n[journal]\nreplicas = {}\n'
    nats_config(tmp_path)  # creates the keys
    config.write_text(bus.format(tmp_path / "data/keys/daemon.nk", replicas))

    said = nats_config(tmp_path, "--config", str(config))
    cluster = nats_config(tmp_path, "--config", str(config), "--cluster")

    assert f"max_file: {replicas * MAX_STORE_BYTES}," in said.stdout
    assert cluster.returncode == (2 if replicas == 5 else 0), cluster.stderr


def test_each_daemon_has_its_own_key_from_an_option_or_the_configuration(tmp_path: Path) -> None:
    seeds, keys = zip(*(new_pair() for _ in range(3)), strict=True)
    texts = [key.decode() for key in keys]
    nats_config(tmp_path)
    own = (tmp_path / "data/keys/daemon.pub").read_text().strip()
    (tmp_path / "second.nk").write_bytes(seeds[1])
    bus = f'[bus]\nurl = "nats://a:4222"\nkey_file = "{tmp_path}/data/keys/daemon.nk"\n'
    (tmp_path / "data/safetyd.toml").write_text(f'{bus}daemons = ["{own}", "{texts[2]}"]\n')

    said = nats_config(
        tmp_path, "--daemon-key", texts[0], "--daemon-key", str(tmp_path / "second.nk")
    )

    safety = said.stdout.partition("SAFETY {")[2].partition("exports:")[0]
    assert all(safety.count(f"nkey: {key} ") == 1 for key in (own, *texts))
    assert seeds[1].decode() not in said.stdout


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--out", "x"), 2),
        (("--cluster", "--node", "a=one"), 2),
        (("--cluster", *(2 * NODES)), 2),
        (("--cluster", *NODES, "--node", "w=127.0.0.1:4225:6222"), 2),
        (("--cluster", "--node", "a b=c"), 2),
        (("--daemon-key", "SUA"), 1),
    ],
)
def test_wrong_options_are_rejected(tmp_path: Path, options: tuple[str, ...], code: int) -> None:
    said = nats_config(tmp_path, *options)

    assert said.returncode == code
    assert said.stdout == ""
    assert said.stderr.startswith("safetyd: ")
