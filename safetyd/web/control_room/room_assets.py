"""Scripts and style sheets of the control room, served under names with a content hash."""

import gzip
import hashlib
from importlib import resources
from typing import Final, NamedTuple

from aiohttp import web

FOREVER: Final = "public, max-age=31536000, immutable"
TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
STYLES: Final = ("vendor/uPlot.min.css", "card.css", "room.css", "room_parts.css")
SCRIPTS: Final = (
    "vendor/htmx.min.js",
    "vendor/idiomorph-ext.min.js",
    "vendor/uPlot.iife.min.js",
    "times.js",
    "live.js",
    "stream.js",
    "proof.js",
    "note.js",
    "stop.js",
    "keys.js",
    "charts.js",
    "pause.js",
    "feed.js",
)
SIGN_IN: Final = "sign_in.js"
ICON: Final = "icon.svg"


class Asset(NamedTuple):
    name: str
    body: bytes
    packed: bytes  # compressed with gzip


class RoomAssets:
    """All files that a page loads, read once."""

    def __init__(self) -> None:
        self._assets = {_path(name): _read(name) for name in (*STYLES, *SCRIPTS, SIGN_IN, ICON)}
        paths = {asset.name: f"/assets/{path}" for path, asset in self._assets.items()}
        self.styles = [paths[name] for name in STYLES]
        self.scripts = [paths[name] for name in SCRIPTS]
        self.sign_in_script, self.icon = paths[SIGN_IN], paths[ICON]

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/assets/{path}", self._get)

    async def _get(self, request: web.Request) -> web.Response:
        asset = self._assets.get(request.match_info["path"])
        if asset is None:
            return web.Response(status=404, text="no such file\n")
        packed = "gzip" in request.headers.get("Accept-Encoding", "")
        headers = {
            "Cache-Control": FOREVER,
            "Vary": "Accept-Encoding",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        if packed:
            headers["Content-Encoding"] = "gzip"
        kind = TYPES[asset.name[asset.name.rindex(".") :]]
        body = asset.packed if packed else asset.body
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)


def _read(name: str) -> Asset:
    body = (resources.files("safetyd.web") / "assets" / name).read_bytes()
    return Asset(name, body, gzip.compress(body, 9, mtime=0))


def _path(name: str) -> str:
    digest = hashlib.sha256(_read(name).body).hexdigest()[:12]
    return f"{digest}-{name.rpartition('/')[2]}"
