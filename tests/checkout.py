"""Where the files of this checkout are."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
