"""A program that holds the port before the daemon and installs a service worker in browsers."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final

from playwright.async_api import Page

PLANTED: Final = "planted"
TAKEN: Final = "taken by the worker"
_ICON: Final = "<link rel=icon href=data:,>"  # so that browsers do not request one
_PAGE: Final = f"""<!doctype html>{_ICON}<title>wait</title><script>
navigator.serviceWorker.register("/worker.js")
  .then(() => navigator.serviceWorker.ready)
  .then(() => {{ document.title = "{PLANTED}"; }});
</script>"""
# It answers every request itself and stores the requests where pages of its origin can read them.
_WORKER: Final = f"""
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {{
  const kept = caches.open("seen").then((seen) => seen.put(event.request.url, new Response()));
  const page = "{_ICON}<h1>{TAKEN}</h1>";
  event.respondWith(
    kept.then(() => new Response(page, {{headers: {{"Content-Type": "text/html"}}}})));
}});
"""


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        script = self.path == "/worker.js"
        body = (_WORKER if script else _PAGE).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if script else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Do not log."""


class _OnIPv6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


@contextmanager
def impostor(port: int) -> Iterator[None]:
    """Listen on both loopback addresses of a port, as a daemon does, until the block ends."""
    servers = (
        ThreadingHTTPServer(("127.0.0.1", port), _Answers),
        _OnIPv6(("::1", port), _Answers),
    )
    threads = [Thread(target=server.serve_forever, args=(0.05,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()


async def meet(page: Page, url: str) -> None:
    """Open an impostor's page until its worker is installed."""
    await page.goto(url)
    await page.wait_for_function(f"document.title === '{PLANTED}'")


async def seen_by_worker(page: Page, url: str) -> list[str]:
    """Return the requests that the worker of an origin saw, without the page that lists them."""
    await page.goto(url)
    assert await page.inner_text("h1") == TAKEN
    told: list[str] = await page.evaluate(
        "async () => (await (await caches.open('seen')).keys()).map((asked) => asked.url)"
    )
    assert f"{url}/" in told
    return [address for address in told if address != f"{url}/"]
