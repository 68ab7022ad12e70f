"""`safetyd nats-config`: what somebody else's nats-server needs to carry safetyd."""

from pathlib import Path
from typing import Final

import click

from safetyd.bus.keyring import Keyring, KeyUnusable, public_key
from safetyd.bus.server_config import MAX_STORE_BYTES, Users, accounts
from safetyd.bus.subjects import Subjects
from safetyd.console.failure import Failure
from safetyd.console.locations import data_dir, make_private
from safetyd.console.options import config_option, data_dir_option
from safetyd.daemon.config import Config, ConfigError, load

HEAD: Final = f"""\
# Accounts and permissions for safetyd on a nats-server of your own. Include this file in the
# configuration of every server, and print it again whenever a key is added or revoked.
#
# It is not enough by itself. Set besides, on every server:
#
#   jetstream {{
#     store_dir: "/var/lib/nats"
#     max_file: {MAX_STORE_BYTES}      # at least, for the journal
#     sync_interval: always       # without it a power cut takes decisions that were answered
#   }}
#   max_payload: 256KB            # at least; the journal's batches have up to 192 KB
#   tls {{ ... }}                   # unless nobody else shares the network
#
# JetStream must be on in account SAFETY and in no other that agents can use. If the server has a
# system account already, leave `system_account` and SYS out. Agents need keys here: there is no
# open user. In the daemon's own file set bus.url and bus.key_file.
"""


@click.command()
@config_option
@data_dir_option
def nats_config(config_path: Path | None, directory: str | None) -> None:
    """Print the accounts that a bus of your own needs.

    Public keys only: nothing in it is a secret.
    """
    where = data_dir(directory)
    try:
        config = load(config_path)
        users = _users(config, where)
    except ConfigError as exc:
        raise Failure(str(exc), "config", exc.errors) from exc
    except KeyUnusable as exc:
        raise Failure(f"{exc}; delete it or put it right", "no_key") from exc
    except OSError as exc:
        raise Failure(f"the keys cannot be read: {exc}") from exc
    click.echo(HEAD + accounts(users, Subjects(config.bus.prefix)), nl=False)


def _users(config: Config, where: Path) -> Users:
    make_private(where)
    keyring = Keyring(where / "keys")
    keyring.make_own()
    own = Path(config.bus.key_file) if config.bus.key_file else keyring.daemon
    return Users(
        daemon=public_key(own),
        agents=dict(keyring.public("agents")),
        operators=dict(keyring.public("operators")),
        observers=dict(keyring.public("observers")),
        open_agents=False,
    )
