"""openapi.yaml as it came with the daemon."""

from pathlib import Path
from typing import Final

from aiohttp import web

from safetyd.web.v1.http_refusals import NOT_STORED

CONTENT_TYPE: Final = "application/yaml"

_PACKAGE: Final = Path(__file__).parents[2]


def openapi_path() -> Path:
    """Return where it is: a wheel has documents in the package, a checkout beside it."""
    installed = _PACKAGE / "share"
    return (installed if installed.is_dir() else _PACKAGE.parent) / "docs" / "openapi.yaml"


async def get_openapi(_request: web.Request) -> web.FileResponse:
    return web.FileResponse(openapi_path(), headers={**NOT_STORED, "Content-Type": CONTENT_TYPE})
