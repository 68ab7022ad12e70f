"""What axe-core finds on a page, as far as it is serious or critical."""

from typing import Any, Final

from playwright.async_api import Page

from tests.checkout import ROOT

AXE: Final = ROOT / "tests" / "web" / "axe"
SCRIPT: Final = (AXE / "axe.min.js").read_text()
GRAVE: Final = {"serious", "critical"}
RUN: Final = """async rules => (await axe.run(
  { resultTypes: ['violations'], ...(rules.length && { runOnly: rules }) })).violations"""
# The rules that look at how a page is laid out and coloured; all others read its elements.
LOOKS: Final = (
    *("color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"),
)


async def grave_findings(page: Page) -> list[str]:
    """Return what is grave, and where."""
    await page.evaluate(SCRIPT)
    return await _violations(page, ())


async def grave_in_the_dark(page: Page) -> list[str]:
    """Return the same of how a page looks that was gone through: nothing else is different."""
    await page.emulate_media(color_scheme="dark")
    found = await _violations(page, LOOKS)
    await page.emulate_media(color_scheme="light")
    return [f"in the dark: {one}" for one in found]


async def _violations(page: Page, rules: tuple[str, ...]) -> list[str]:
    violations: list[dict[str, Any]] = await page.evaluate(RUN, rules)
    return [
        f"{page.url} {one['id']}: {[node['html'] for node in one['nodes'][:3]]}"
        for one in violations
        if one["impact"] in GRAVE
    ]
