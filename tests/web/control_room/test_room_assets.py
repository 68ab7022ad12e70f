"""Assets: names with a content hash, and nothing from other hosts."""

import gzip
import hashlib
import re

import pytest

from safetyd.web.control_room.room_assets import FOREVER, SCRIPTS, STYLES, RoomAssets, _path
from tests import vendored_assets
from tests.checkout import ROOT
from tests.web.axe_findings import AXE, SCRIPT
from tests.web.control_room.room_site import Browser, RoomSite, addresses

MOST_LINES = 80
ASSETS = ROOT / "safetyd/web/assets"
OWN = sorted(ASSETS.glob("*.js"))


async def test_every_asset_of_a_page_is_served_for_ever_under_the_name_of_its_content(
    site: RoomSite, alice: Browser
) -> None:
    pages = [await alice.get("/"), await alice.get("/signin/x")]
    paths = {
        path for page in pages for path in re.findall(r'(?:src|href)="(/assets/[^"]*)"', page.text)
    }
    served = [await alice.get(path) for path in sorted(paths)]

    assert len(paths) >= len(STYLES) + len(SCRIPTS)
    for path, asset in zip(sorted(paths), served, strict=True):
        digest = hashlib.sha256(asset.text.encode()).hexdigest()
        assert path.startswith(f"/assets/{digest[:12]}-")
        assert (asset.status, asset.headers["Cache-Control"]) == (200, FOREVER)
        assert asset.headers["X-Content-Type-Options"] == "nosniff"


async def test_assets_are_packed_for_who_can_unpack_them(site: RoomSite, alice: Browser) -> None:
    path = RoomAssets().scripts[0]
    async with alice.session.get(path, headers={"Accept-Encoding": "gzip"}) as response:
        packed = response.headers
    plain = await alice.get(path, **{"Accept-Encoding": "identity"})

    assert packed["Content-Encoding"] == "gzip"
    assert int(packed["Content-Length"]) == len(gzip.compress(plain.text.encode(), 9, mtime=0))
    assert "Content-Encoding" not in plain.headers
    assert plain.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(".js", "text/javascript"), (".css", "text/css"), (".svg", "image/svg+xml")],
)
async def test_assets_say_what_they_are(
    site: RoomSite, alice: Browser, ending: str, kind: str
) -> None:
    assets = RoomAssets()
    paths = [*assets.scripts, *assets.styles, assets.icon, assets.sign_in_script]
    found = [await alice.get(path) for path in paths if path.endswith(ending)]

    assert found
    assert {asset.headers["Content-Type"] for asset in found} == {f"{kind}; charset=utf-8"}


@pytest.mark.parametrize(
    "path", ["room.js", "..%2Fvisitors.py", "%2Fetc%2Fpasswd", "vendor%2Fvendor.json", "x" * 12]
)
async def test_nothing_else_is_served(site: RoomSite, alice: Browser, path: str) -> None:
    assert (await alice.get(f"/assets/{path}")).status == 404


def test_another_content_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _path("live.js")
    asset = RoomAssets()._assets[before]
    monkeypatch.setattr(
        "safetyd.web.control_room.room_assets._read",
        lambda name: asset._replace(name=name, body=asset.body + b"\n"),
    )

    assert before.endswith("-live.js")
    assert _path("live.js") != before


async def test_pages_load_nothing_from_elsewhere(site: RoomSite, alice: Browser) -> None:
    for path in addresses(site.asks()):
        page = await alice.get(path)
        assert not re.findall(r'(?:src|href|action)="(?!/|#)[^"]*"', page.text)


def test_there_are_scripts_of_our_own() -> None:
    assert {path.name for path in OWN} <= {*SCRIPTS, "sign_in.js"}


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_a_script_is_no_longer_than_it_can_be_read_at_once(path) -> None:
    text = path.read_text()

    assert len(text.splitlines()) <= MOST_LINES
    assert not re.search(r"\beval\(|innerHTML\s*=|new Function", text)


def test_vendored_files_match_their_recorded_hashes() -> None:
    assert list(vendored_assets.problems()) == []
    served = {name.removeprefix("vendor/") for name in (*STYLES, *SCRIPTS) if "vendor/" in name}
    assert served <= vendored_assets.recorded().keys()


def test_what_is_not_heard_of_turns_grey_within_three_seconds() -> None:
    script = (ASSETS / "live.js").read_text()
    (fresh,) = re.findall(r"FRESH_MS = (\d+);", script)
    (looked,) = re.findall(r"setInterval\(show, (\d+)\)", script)

    assert int(fresh) + int(looked) <= 3000


def test_axe_is_the_file_that_its_readme_names() -> None:
    digest = hashlib.sha256(SCRIPT.encode()).hexdigest()

    assert digest in (AXE / "README.md").read_text()
