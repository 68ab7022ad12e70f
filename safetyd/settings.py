"""The configuration and keys in force, and taking on new ones: all of them or none."""

import logging
from pathlib import Path
from typing import Final

import msgspec

from safetyd.bus.accounts import Users
from safetyd.bus.door import Door
from safetyd.bus.intake import Intake
from safetyd.bus.keys import Keyring, public_key, seed_in
from safetyd.config import Config, load

# What is built once; a change to it waits for the next start.
BUILT_ONCE: Final = ("bus", "web", "audit", "stop")

log = logging.getLogger("safetyd.settings")


class Settings:
    """What an operator has set: a file and a directory of keys."""

    def __init__(self, config: Config, path: Path | None, data_dir: Path) -> None:
        self.config = config
        self.data_dir = data_dir
        self.keyring = Keyring(data_dir / "keys")
        self.intake = Intake(config.rate)
        self.door = Door()
        self.path = path
        self._keyed: frozenset[str] = frozenset()
        self.next_start: tuple[str, ...] = ()  # sections whose change waits for it

    @property
    def stop_files(self) -> tuple[Path, ...]:
        return tuple(self.data_dir / name for name in self.config.stop.files)

    @property
    def keys(self) -> int:
        """Return how many agents have a key."""
        return len(self._keyed)

    def has_key(self, agent: str) -> bool:
        return agent in self._keyed

    def seed(self) -> str:
        """Return the daemon's own nkey seed."""
        key_file = self.config.bus.key_file
        return seed_in(Path(key_file) if key_file else self.keyring.daemon)

    def users(self) -> Users:
        """Read the keys as they are now."""
        agents = dict(self.keyring.public("agents"))
        self._keyed = frozenset(agents)
        return Users(
            daemon=public_key(self.keyring.daemon),
            agents=agents,
            operators=dict(self.keyring.public("operators")),
            observers=dict(self.keyring.public("observers")),
            open_agents=self.config.bus.keyless,
            door_open=self.door.open,
        )

    def reload(self) -> None:
        """Take on the file as it is now; raise `ConfigError` and change nothing if it is wrong."""
        self.adopt(self.read())

    def read(self) -> Config:
        """Return what the file says now, and change nothing."""
        return load(self.path)

    def adopt(self, fresh: Config) -> None:
        """Let a configuration be in force, but for what is built once."""
        self.next_start = self._kept_back(fresh)
        for name in self.next_start:
            log.warning("[%s] has changed and takes effect at the next start", name)
        kept = {name: getattr(self.config, name) for name in BUILT_ONCE}
        self.config = msgspec.structs.replace(fresh, **kept)
        self.intake = Intake(fresh.rate)

    def _kept_back(self, fresh: Config) -> tuple[str, ...]:
        return tuple(n for n in BUILT_ONCE if getattr(fresh, n) != getattr(self.config, n))
