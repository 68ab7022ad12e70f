"""`safetyd nats-config` prints the configuration of your own nats-server or NATS cluster."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from safetyd.bus.cluster_config import (
    ACCOUNTS,
    DEFAULT_NODES,
    ROUTES,
    ClusterNode,
    NodeUnclear,
    node_config,
    route_password,
    routes_config,
)
from safetyd.bus.keyring import Keyring, KeyUnusable, is_public_key, public_key, public_key_in
from safetyd.bus.server_config import MAX_STORE_BYTES, Users, accounts
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.console.daemon_config import read_config
from safetyd.console.failure import Failure, WrongUsage
from safetyd.console.help_page import command
from safetyd.console.locations import make_private
from safetyd.console.options import config_option, data_dir_option
from safetyd.daemon.config import Config
from safetyd.host import own_config, write_whole

REPLICAS: Final = 3  # the least that a cluster has room for
SHARED: Final = 0o644

_KEYS: Final = """\
# Accounts and permissions for safetyd. Generate this file again whenever a key is added, rotated
# or revoked, and when an old key has expired. There is no anonymous user, so every agent needs a
# key. The public keys of several daemons are in bus.daemons of their configuration.
"""
ACCOUNTS_HEAD: Final = f"""\
{_KEYS}#
# Include this file in the configuration of every server. Every server also needs these settings:
#
#   jetstream {{
#     store_dir: "/var/lib/nats"
#     max_file: {MAX_STORE_BYTES}      # or more, for the journal
#     sync_interval: always       # otherwise a power cut can lose decisions
#   }}
#   max_payload: 256KB            # or more; batches of the journal have up to 192 KB
#   tls {{ ... }}                   # unless the network is private
#
# Enable JetStream in the account SAFETY, and in no other account that agents can use. If the
# server already has a system account, remove `system_account` and SYS. In safetyd's configuration,
# set bus.url and bus.key_file.
"""
CLUSTER_HEAD: Final = """\
# Node {name} of a NATS cluster for safetyd. Copy this file, {routes} and {accounts} to
# {host}, and start nats-server with this file.
#
# In the configuration of each daemon, set:
#
#   [bus]
#   url = "{url}"
#   key_file = "…"                # the daemon's own key
#
#   [journal]
#   replicas = {replicas}
"""


@command()
@click.option("--cluster", is_flag=True, help="Print the configuration of a cluster.")
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME=HOST[:PORT[:ROUTE_PORT]]",
    help="A node of the cluster. Repeat it for each node.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write one file per node to this directory.",
)
@click.option(
    "--daemon-key",
    "daemon_keys",
    multiple=True,
    metavar="KEY",
    help="The public key of another daemon, or a file with it. Repeat it for each daemon.",
)
@config_option
@data_dir_option
def nats_config(
    config_path: Path | None,
    directory: Path,
    nodes: Sequence[str],
    out: Path | None,
    daemon_keys: Sequence[str],
    *,
    cluster: bool,
) -> None:
    """Print the accounts that safetyd needs on your own nats-server.

    The output contains only public keys, and no secrets. With --cluster, it is the complete
    configuration of a cluster with three or five nodes. It then contains the password that the
    nodes use among themselves. --out keeps the password of an earlier run.

    For example:
      safetyd nats-config > /etc/nats/safetyd.conf
      safetyd nats-config --cluster --out nats --node a=nats-a:4222 --node b=nats-b --node c=nats-c
    """
    if not cluster and (nodes or out):
        raise WrongUsage("--node and --out need --cluster")
    try:
        settings = read_config(config_path or own_config(directory))
        users = _users(settings, directory, daemon_keys)
    except KeyUnusable as exc:
        raise Failure(f"{exc}. Fix or delete it", "no_key") from exc
    except OSError as exc:
        raise Failure(f"cannot read the keys: {exc}") from exc
    subjects, replicas = Subjects(settings.bus.prefix), settings.journal.replicas
    if not cluster:
        printed = accounts(users, subjects, replicas=replicas)
        click.echo(ACCOUNTS_HEAD + printed, nl=False)
        return
    replicas = max(replicas, REPLICAS)
    files = dict(_files(_nodes(nodes, replicas), replicas, _known_routes(out)))
    files[ACCOUNTS] = _KEYS + accounts(users, subjects, replicas=replicas)
    if out is None:
        click.echo("\n".join(f"# ---- {name} ----\n{text}" for name, text in files.items()))
    else:
        _write(out, files)


def _nodes(given: Sequence[str], replicas: int) -> tuple[ClusterNode, ...]:
    try:
        nodes = tuple(map(ClusterNode.read, given)) or DEFAULT_NODES
    except NodeUnclear as exc:
        raise WrongUsage(f"--node: {exc}") from exc
    own = Counter(each for node in nodes for each in (node.name, f"{node.host}:{node.route_port}"))
    if shared := [each for each, count in own.items() if count > 1]:
        raise WrongUsage(f"--node: {shared[0]} is used twice; nodes need different names and ports")
    if len(nodes) < replicas:
        raise WrongUsage(f"--node: {len(nodes)} given; {replicas} replicas need {replicas} nodes")
    return nodes


def _files(nodes: Sequence[ClusterNode], replicas: int, routes: str) -> Iterator[tuple[str, str]]:
    """Yield names and contents of the files of a cluster, except for the accounts."""
    url = ",".join(node.url for node in nodes)
    for node in nodes:
        head = CLUSTER_HEAD.format(
            name=node.name,
            host=node.host,
            routes=ROUTES,
            accounts=ACCOUNTS,
            url=url,
            replicas=replicas,
        )
        yield f"{node.name}.conf", head + node_config(node)
    yield ROUTES, routes_config(nodes, route_password(routes))


def _known_routes(out: Path | None) -> str:
    """Return the file of an earlier run, so that its password stays in force."""
    try:
        return "" if out is None else (out / ROUTES).read_text()
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise Failure(f"cannot read {out}: {exc.strerror}") from exc


def _write(out: Path, files: Mapping[str, str]) -> None:
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in files.items():
            write_whole(out / name, text.encode(), mode=0o600 if name == ROUTES else SHARED)
            click.echo(f"{out / name}")
    except OSError as exc:
        raise Failure(f"cannot write to {out}: {exc.strerror}") from exc


def _users(settings: Config, where: Path, daemon_keys: Sequence[str]) -> Users:
    make_private(where)
    keyring = Keyring(where / "keys")
    keyring.make_own()
    own = Path(settings.bus.key_file) if settings.bus.key_file else keyring.daemon
    others = (*settings.bus.daemons, *map(_daemon_key, daemon_keys))
    now = Clock().now().at
    return Users(
        daemons=tuple(dict.fromkeys((public_key(own), *others))),
        agents=dict(keyring.public("agents")),
        operators=dict(keyring.public("operators")),
        observers=dict(keyring.public("observers")),
        relays=dict(keyring.public("relays")),
        other_locals=keyring.other_locals(now),
        old_keys=keyring.old_keys(now),
        open_agents=False,
    )


def _daemon_key(given: str) -> str:
    return given if is_public_key(given) else public_key_in(Path(given))
