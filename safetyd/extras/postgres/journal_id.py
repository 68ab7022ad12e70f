"""Whose events these are: a random name that is kept in the data directory."""

import re
import secrets
from pathlib import Path
from typing import Final

from safetyd.extras.postgres.export_problem import ExportProblem
from safetyd.host import write_whole

FILE: Final = "journal-id"
_is_id = re.compile(r"[0-9a-f]{32}").fullmatch


def journal_id(data_dir: Path, *, make: bool = True) -> str:
    """Return the name of a data directory's journal; one that has none is given one, or is ""."""
    path = data_dir / FILE
    try:
        if not path.exists():
            if not make:
                return ""
            # It is no secret: who loads for the daemon may be another user.
            write_whole(path, f"{secrets.token_hex(16)}\n".encode(), mode=0o644)
        found = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ExportProblem(f"{path} cannot be used: {exc}") from None
    if not _is_id(found):
        raise ExportProblem(f"{path} holds no name of a journal (32 hexadecimal digits)")
    return found
