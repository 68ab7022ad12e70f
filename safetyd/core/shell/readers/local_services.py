"""Requests to local services: what they would delete, change or start.

The project's own server may be used freely. Databases, search engines, build servers and registries
store data that other people or programs need, even on this machine.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_plus, urlsplit

from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.reading import HOLE, Effect, word_set

# Default ports of development servers.
_OF_PROJECTS: Final = frozenset(
    {80, 443, *range(3000, 3100), *range(4000, 4010), 4200, 4321, *range(5000, 5010), *(5173, 5174)}
    | {*range(8000, 8010), *range(8080, 8090), 8443, 8787, *range(8888, 8892), 9292}
)
# Ports of services that store data. A POST to them is rarely a query.
_OF_SERVICES: Final = frozenset(
    {
        *(0, 1337, 2019, 2375, 2379, 3100, 4001, 4040, 4646, 5601, 5984, 6333, 7474, 7700, 8065),
        8069,
        *(8086, 8108, 8111, 8123, 8153, 8161, 8200, 8265, 8428, 8500, 8529, 8774, 8983, 9000, 9001),
        *(9090, 9091, 9092, 9093, 9200, 9201, 9411, 9696, 10250, 11434, 15672, 16686, 18080, 19530),
        *(24220, 27017, 28015, 50070),
    }
)
_OF_SERVERS: Final = re.compile(
    r"/(job|computer|queue|view|pluginManager|credentials|manage|go/api|app/rest|createItem)/"
    r"|/(scriptText|script|createItem|exit|safeExit|restart|quietDown)\b"
    r"|/v2/.+/(manifests|blobs)/|/api/2\.0/(mlflow|preview)/|/api/v[14]/(repos|projects|admin|orgs)/"
    r"|/_(bulk|aliases|cluster|settings|template|index_template|ingest|snapshot|security|tasks)\b"
    r"|/v1/(kv|agent|sys|secret|jobs?|allocations?)/|/(api/v1|apis)/namespaces/",
)
_ASKS: Final = re.compile(
    r"/(_?m?search|_count|_msearch|_mget|_analyze|_validate|_explain|_field_caps|_search/scroll"
    r"|_sql|_eql|query|query_range|series|labels|graphql|find|_find|count|scroll|recommend"
    r"|embeddings?|generate|chat|completions|show|validate|render|explain|login|token|predict"
    r"|invocations|search/\w+|experiments/search|runs/search|registered-models/search)"
    r"(/query|/_?search)?/?$",
)
_DELETES: Final = word_set("""
    delete deletes remove drop dropdatabase purge truncate flush flushall shutdown restart reboot
    kill terminate destroy wipe dodelete scripttext saferestart uninstall disable rollback prune
""")
_ASKING: Final = frozenset({"GET", "HEAD", "OPTIONS", "PROPFIND"})
_words_of = re.compile(r"[A-Za-z]+").findall
_camel = re.compile(r"(?<=[a-z])(?=[A-Z])").split
_changes_data = re.compile(
    r"\b(drop|truncate|alter|grant|revoke|attach|detach|optimize|kill|system)\s+\w+"
    r"|\bdelete\s+(from|where)\b|\binsert\s+into\b|\bupdate\s+\w+\s+set\b|\bdelete\b.{0,40}\bmatch\b"
    r"|\bdetach\s+delete\b|\.(delete|drop|remove)\w*\(",
    re.IGNORECASE | re.DOTALL,
).search
_asks_data = re.compile(
    r"\s*(?:query=|q=)?(select|show|describe|explain|with)\b", re.IGNORECASE
).match
_mutates = re.compile(
    r"\bmutation\b.*\b(delete|drop|remove|destroy)", re.IGNORECASE | re.DOTALL
).search


def request(inv: Invocation, url: str, method: str, bodies: Iterable[str]) -> None:
    """Record the effects of a request to a local service."""
    why = _changes(url, method, list(bodies))
    if why:
        remedy = "as a read-only request"
        inv.found(Effect.IRREVERSIBLE, f"{why} {visible(_shown(url))}", remedy=remedy)
    else:
        effect = Effect.READ if method in _ASKING else Effect.WORK
        inv.found(effect, "queries a local service")


def _changes(url: str, method: str, bodies: list[str]) -> str:
    """Return how a request changes the service, or an empty string."""
    path, port, query = _parts(url)
    words = {part.lower() for word in _words_of(path) for part in (word, *_camel(word))}
    asks = method in _ASKING
    if _changes_data(unquote_plus(query)) or any(map(_changes_data, bodies)):
        return "changes data with a request to"
    if not asks and (method == "DELETE" or words & _DELETES or any(map(_mutates, bodies))):
        return "deletes or stops something with a request to"
    if (
        asks
        or (bodies and all(map(_asks_data, bodies)))
        or (_ASKS.search(path) and not _OF_SERVERS.search(path))
    ):
        return ""
    stores = port in _OF_SERVICES or HOLE in method or _OF_SERVERS.search(path)
    own = method == "POST" or port in _OF_PROJECTS
    return "" if own and not stores else "changes a local service with a request to"


def _parts(url: str) -> tuple[str, int, str]:
    """Return the path, port and query of a URL."""
    try:
        split = urlsplit(url if "://" in url else f"http://{url}")
        return split.path, split.port or (443 if split.scheme == "https" else 80), split.query
    except ValueError:
        return url, 0, url


def _shown(url: str) -> str:
    return url.partition("?")[0]
