"""The services of compose.yaml, with the meaning that the Compose specification gives them."""

import os
import re
from typing import Any, Final, NamedTuple

import yaml

from tests.checkout import ROOT

COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]
NATS: Final = tuple(name for name in SERVICES if name.startswith("nats-"))
DAEMONS: Final = tuple(name for name in SERVICES if name.startswith("safetyd-"))


class Mount(NamedTuple):
    source: str  # the name of a volume, or a path that begins with ./
    inside: str
    read_only: bool

    @property
    def is_volume(self) -> bool:
        return not self.source.startswith((".", "/"))


def mounts(service: str) -> list[Mount]:
    found = []
    for text in SERVICES[service].get("volumes", []):
        source, inside, *mode = text.split(":")
        assert mode in ([], ["ro"])
        found.append(Mount(source, inside, bool(mode)))
    return found


def inside_of(service: str, path: str) -> str:
    """Return the source of a path in a container: a file of the repository or of a volume."""
    covering = [
        mount
        for mount in mounts(service)
        if path == mount.inside or path.startswith(f"{mount.inside}/")
    ]
    best = max(covering, key=lambda mount: len(mount.inside))
    return os.path.normpath(best.source + path.removeprefix(best.inside))


def published(service: str) -> dict[int, int]:
    """Return the ports on this machine, and the ports in the container to which they lead."""
    ports = {}
    for text in SERVICES[service].get("ports", []):
        found = re.fullmatch(r"127\.0\.0\.1:(\d+):(\d+)", text)
        assert found is not None, f"{service} publishes {text} to other machines"
        ports[int(found[1])] = int(found[2])
    return ports
