"""The id of a journal: a random name stored in the data directory."""

import re
import secrets
from pathlib import Path
from typing import Final

from safetyd.extras.postgres.export_problem import ExportProblem
from safetyd.host import write_whole

FILE: Final = "journal-id"
_is_id = re.compile(r"[0-9a-f]{32}").fullmatch


def journal_id(data_dir: Path, *, make: bool = True) -> str:
    """Return the id of a data directory's journal. If it is missing, create one or return ""."""
    path = data_dir / FILE
    try:
        if not path.exists():
            if not make:
                return ""
            # It is not a secret: another user may run the export.
            write_whole(path, f"{secrets.token_hex(16)}\n".encode(), mode=0o644)
        found = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ExportProblem(f"cannot use {path}: {exc}") from None
    if not _is_id(found):
        raise ExportProblem(f"{path} does not contain a journal id (32 hexadecimal digits)")
    return found


def adopt_id(data_dir: Path, found: str) -> None:
    """Use the id of a journal that other daemons write too."""
    path = data_dir / FILE
    if _is_id(found) and (not path.exists() or path.read_text(encoding="ascii").strip() != found):
        write_whole(path, f"{found}\n".encode(), mode=0o644)
