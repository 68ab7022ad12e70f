"""`safetyd nats-accounts`: keep the accounts of your own nats-server up to date."""

import shutil
from pathlib import Path
from typing import Final

import anyio
import click
import nats.errors
import nats.js.errors

from safetyd.bus.bus_accounts import AccountsFile, AccountsFollower
from safetyd.bus.connections import BusConfig, Connection
from safetyd.bus.embedded_server import ServerMissing, shipped_binary
from safetyd.bus.keyring import KeyUnusable, seed_in
from safetyd.bus.subjects import Subjects
from safetyd.console.daemon_config import read_config
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.help_page import command
from safetyd.console.options import config_option, data_dir_option
from safetyd.daemon.config import Config
from safetyd.host import own_config
from safetyd.monitoring import event_log

ONCE_S: Final = 10.0
AGAIN_S: Final = 1.0


@command()
@config_option
@data_dir_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The file to write, which the configuration of nats-server includes.",
)
@click.option(
    "--pid-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The pid_file of nats-server. After each change, it gets SIGHUP and loads the file.",
)
@click.option("--once", is_flag=True, help="Write the file once, then exit.")
def nats_accounts(
    config_path: Path | None, directory: Path, out: Path, pid_file: Path | None, *, once: bool
) -> None:
    """Keep the accounts of your own nats-server up to date, until Ctrl-C.

    It follows the keys that daemons share (bus.daemons), and writes the same accounts as
    `safetyd nats-config` whenever a key is added, rotated or revoked, or expires. Run it on every
    machine with a nats-server. It connects with bus.url and bus.key_file.

    For example:
      safetyd nats-accounts --out /etc/nats/safetyd.conf --pid-file /run/nats.pid
      safetyd nats-accounts --out accounts.conf --once
    """
    event_log.set_up(verbose=False)
    config = read_config(config_path or own_config(directory))
    bus = config.bus
    if not bus.daemons:
        why = "bus.daemons is empty, so no keys are shared"
        raise Failure(f"{why}. List the public keys of all daemons, or use `safetyd nats-config`")
    file = AccountsFile(out, pid_file, _binary(bus))
    anyio.run(_once if once else _follow, config, file)


async def _follow(config: Config, file: AccountsFile) -> None:
    while True:
        try:
            await _connected(config, file, once=False)
        except NotReachable as exc:
            click.echo(f"safetyd: {exc.message}", err=True)
            await anyio.sleep(AGAIN_S)


async def _once(config: Config, file: AccountsFile) -> None:
    with anyio.move_on_after(ONCE_S):
        await _connected(config, file, once=True)
        return
    raise NotReachable(f"{config.bus.url} did not answer within {ONCE_S:.0f} s")


async def _connected(config: Config, file: AccountsFile, *, once: bool) -> None:
    """Connect, and update the file once or until the connection is closed."""
    bus = config.bus
    subjects, closed = Subjects(bus.prefix), anyio.Event()
    link = Connection("accounts", lambda _why: closed.set())
    try:
        seed = seed_in(Path(bus.key_file))
        await link.connect(bus.url, seed, subjects.canary("accounts"))
    except (OSError, KeyUnusable) as exc:
        raise NotReachable(f"cannot connect to {bus.url}: {exc}") from exc
    except nats.errors.Error as exc:
        raise NotReachable(f"cannot connect to {bus.url}: {exc}. Check bus.key_file") from exc
    follower = AccountsFollower(link.client, subjects, bus.daemons, file, config.journal.replicas)
    try:
        if once:
            await _written(follower)
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follower.run)
            await closed.wait()
            tasks.cancel_scope.cancel()
    finally:
        await link.close()
    raise NotReachable(f"the connection to {bus.url} is closed")


async def _written(follower: AccountsFollower) -> None:
    try:
        if await follower.once():
            return
    except (nats.errors.Error, nats.js.errors.Error, TimeoutError) as exc:
        raise Failure(f"the key bucket cannot be read: {exc}", "no_bucket") from exc
    raise Failure("no daemon with bus.daemons has written its keys yet", "no_bucket")


def _binary(bus: BusConfig) -> str:
    """Return the nats-server that tests the file, or an empty string if there is none."""
    if found := bus.nats_server or shutil.which("nats-server"):
        return found
    try:
        return shipped_binary()
    except ServerMissing:
        return ""
