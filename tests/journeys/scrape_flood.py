"""A flood of HTTP requests: `python -m tests.journeys.scrape_flood URL S`."""

import sys
from http.client import HTTPConnection, HTTPException
from threading import Thread
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

LOOPS: Final = 6


def ask_for(url: str, until: float, counts: list[int]) -> None:
    where = urlsplit(url)
    count = 0
    while monotonic() < until:
        connection = HTTPConnection(where.hostname or "", where.port, timeout=10)
        try:
            while monotonic() < until:
                connection.request("GET", where.path)
                connection.getresponse().read()
                count += 1
        except (OSError, HTTPException):
            pass  # it tries again
        finally:
            connection.close()
    counts.append(count)


def loops(url: str, for_s: float) -> int:
    """Request until the deadline and return how many answers came."""
    until, counts = monotonic() + for_s, list[int]()
    asking = [Thread(target=ask_for, args=(url, until, counts)) for _ in range(LOOPS)]
    for loop in asking:
        loop.start()
    for loop in asking:
        loop.join()
    return sum(counts)


if __name__ == "__main__":
    print(loops(sys.argv[1], float(sys.argv[2])))
