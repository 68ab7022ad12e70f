"""Warnings about a valid configuration: settings that cannot work at the moment."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from safetyd.core.guards.projects import ProjectConfig
from safetyd.daemon.config import Config
from safetyd.daemon.project_files import with_files
from safetyd.daemon.rota_source import rota_warnings
from safetyd.extras.file_history.service.histories import DIRECTORY, history_problems
from safetyd.host import NoSecret, read_secret, secret_directories
from safetyd.notify.address_book import warnings as telling_warnings


def config_warnings(config: Config, data_dir: Path) -> list[str]:
    """Return every warning, missing secrets last. This reads the files that settings name."""
    projects = with_files(config.policy()).projects
    return [
        *_project_warnings(projects),
        *history_problems(projects, data_dir / DIRECTORY),
        *telling_warnings(config.tables),
        *_relay_warnings(config, data_dir),
        *rota_warnings(config, data_dir),
        *missing_secrets(config, data_dir),
    ]


def _relay_warnings(config: Config, data_dir: Path) -> Iterator[str]:
    relays = sorted(path.stem for path in (data_dir / "keys" / "relays").glob("*.pub"))
    if relays and not config.web.public_url:
        yield (
            f"web.public_url is empty, so links do not lead to relay {relays[0]}. Set it to the "
            "relay's address"
        )


def missing_secrets(config: Config, data_dir: Path) -> list[str]:
    """Return a warning for each secret file that cannot be used."""
    return [
        f"{setting}: {why}. Create that file before you start the daemon, or name another one"
        for setting, why in _missing_secrets(config, secret_directories(data_dir))
    ]


def _missing_secrets(config: Config, directories: Sequence[Path]) -> Iterator[tuple[str, str]]:
    yield from config.notifications.missing_secrets(directories)
    if file := config.outlets.postgres.dsn_file:
        try:
            read_secret(file, directories)
        except NoSecret as exc:
            yield "outlets.postgres.dsn_file", str(exc)


def _project_warnings(projects: Mapping[str, ProjectConfig]) -> Iterator[str]:
    for name, project in projects.items():
        if project.file_broken:
            why = f"{project.file}: {project.file_broken}. Everything in {name} needs approval"
            yield f"projects.{name}.file: {why}"
        if project.root and not project.committed and not _is_folder(project.root):
            yield f"projects.{name}.root: {project.root} is not a folder"


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False
