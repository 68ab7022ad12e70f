"""Programs that download files: what they send, and which files they write."""

import posixpath
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from safetyd.core.shell import places, rows
from safetyd.core.shell.addresses import host, is_local, is_metadata, leaks_output, scheme
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.readers import local_services
from safetyd.core.shell.reading import HOLE, Effect
from safetyd.core.shell.tree.syntax import text_of
from safetyd.core.shell.words import COMMAND, DOWNLOADED, KNOWN, NOTHING, Word

_ASKING: Final = frozenset({"GET", "HEAD", "OPTIONS", "PROPFIND"})
_SENDING_SCHEMES: Final = frozenset({"smtp", "smtps", "telnet", "gopher", "gophers", "mqtt"})
_DATA: Final = (
    *("-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--data-ascii"),
    *("--json", "-F", "--form", "--form-string", "--url-query"),
)
_DETOURS: Final = (
    *("-x", "--proxy", "--preproxy", "--socks4", "--socks4a", "--socks5", "--socks5-hostname"),
    *("--connect-to", "--resolve", "--doh-url"),
)
_SAID: Final = ("-H", "--header", "-A", "--user-agent", "-e", "--referer", "-b", "--cookie")
_CREDENTIALS: Final = ("authorization", "token", "key", "auth", "session")
_UNPACKING: Final = ("tar ", "bsdtar ", "tee ", "gunzip", "cpio", "unzip", "sudo ", "dd ")
_ITEM: Final = re.compile(r"[^=:@/]+(=@|:=@|:=|==|=|@|:)")


class Sent(NamedTuple):
    """The data of a request."""

    method: str = "GET"
    data: tuple[Word, ...] = ()
    local: bool = False  # the request goes to a local service
    gives: bool = False


def read_curl(inv: Invocation) -> None:
    """Analyse `curl`. Read-only requests are allowed, sending data needs approval."""
    call = inv.call
    if _only_helps(inv):
        return
    if call.has("-K", "--config"):
        inv.found(Effect.UNKNOWN, "reads options from a file that is not analysed")
    if call.has("--unix-socket", "--abstract-unix-socket"):
        inv.found(Effect.PRIVILEGED, "connects to a local service through its socket")
    urls = [*call.arguments, *call.values("--url")]
    local = bool(urls) and all(is_local(url.text) for url in urls) and not call.has(*_DETOURS)
    method = call.values("-X", "--request")[-1:]
    gives = bool(call.values("-T", "--upload-file", "-Q", "--quote", "--mail-rcpt"))
    gives |= any(scheme(url.text) in _SENDING_SCHEMES for url in urls)
    data = call.values(*_DATA)
    asks = call.has_surely("-G") or call.has_surely("--get")
    gives |= bool(data) and not (
        asks and not any(leaks_output(w) or "@" in w.text[:40] for w in data)
    )
    gives |= bool(method) and method[0].text.upper() not in _ASKING
    said = [w for w in call.values(*_SAID) if not _is_credential(w)]
    named = method[0].text.upper() if method else ("POST" if gives else "GET")
    sent = Sent(named, tuple(data), local=local, gives=gives)
    _request(inv, urls, sent, said)
    if call.has("-k", "--insecure", "--proxy-insecure") or _is_unencrypted(urls):
        _saves_unverified(inv, urls, stored=bool(call.values("-o", "--output")) or call.has("-O"))
    inv.reads(*(_file_of(w) for w in [*data, *call.values(*_SAID)] if "@" in w.text))
    inv.reads(*call.values(*call.program.row.reads))
    inv.reads(*(w for w in call.values("-b", "--cookie") if "=" not in w.text))  # a file
    _curl_files(inv, urls)


def _curl_files(inv: Invocation, urls: Sequence[Word]) -> None:
    call = inv.call
    folder = next(iter(call.values("--output-dir")), None)
    outputs = call.values("-o", "--output")
    for word in outputs:
        inv.saves(_below(folder, word) if folder else word, DOWNLOADED)
    remote = call.has("-O", "--remote-name", "--remote-name-all")
    for url in urls if remote else ():
        inv.saves(_below(folder, _named_by(url)), DOWNLOADED)
    for word in call.values(*(set(call.program.row.writes) - {"-o", "--output"})):
        inv.writes(word)
    if any("%output" in word.text for word in call.values("-w", "--write-out")):
        inv.found(Effect.UNKNOWN, "writes a file that is named in its format string")
    printed = [word for word in outputs if inv.scope.place(word.text).kind == places.STREAM]
    everything = remote or len(outputs) >= len(urls)
    inv.output = NOTHING if outputs and everything and not printed else DOWNLOADED
    if remote and not outputs:
        inv.output = NOTHING


def read_wget(inv: Invocation) -> None:
    """Analyse `wget`, which saves downloads to files."""
    call = inv.call
    if _only_helps(inv):
        return
    urls = call.arguments
    method = call.values("--method")[-1:]
    gives = call.has("--post-data", "--post-file", "--body-data", "--body-file")
    gives |= bool(method) and method[0].text.upper() not in _ASKING
    local = (
        bool(urls) and all(is_local(url.text) for url in urls) and not call.has("-e", "--execute")
    )
    said = [w for w in call.values("--header", "-U", "--user-agent") if leaks_output(w)]
    said = [w for w in said if not _is_credential(w)]
    named = method[0].text.upper() if method else ("POST" if gives else "GET")
    data = call.values("--post-data", "--body-data")
    _request(inv, urls, Sent(named, tuple(data), local=local, gives=gives), said)
    if call.has("--no-check-certificate", "--no-hsts") or _is_unencrypted(urls):
        _saves_unverified(inv, urls, stored=not call.has_surely("--spider") and not _prints(inv))
    inv.reads(*call.values(*call.program.row.reads))
    if call.has("--config", "--use-askpass"):
        inv.found(Effect.UNKNOWN, "reads settings from a file or program that is not analysed")
    for setting in call.values("-e", "--execute"):
        if setting.text.replace(" ", "") not in {"robots=off", "robots=on"}:
            why = f"applies the setting {visible(setting.text)}, which is not analysed"
            inv.found(Effect.UNKNOWN, why)
    _wget_files(inv, urls)


def _wget_files(inv: Invocation, urls: Sequence[Word]) -> None:
    call = inv.call
    for word in call.values(*(set(call.program.row.writes) - {"-O", "--output-document"})):
        inv.writes(word)
    folder = next(iter(call.values("-P", "--directory-prefix")), None)
    output = next(iter(call.values("-O", "--output-document")), None)
    if call.has_surely("--spider"):
        inv.output = NOTHING
    elif output is not None:
        inv.saves(output, DOWNLOADED)
        printed = inv.scope.place(output.text).kind == places.STREAM
        inv.output = DOWNLOADED if printed else NOTHING
    else:
        for url in urls:
            inv.saves(_below(folder, _named_by(url)), DOWNLOADED)
        if folder is not None:
            inv.writes(folder)
        inv.output = NOTHING


def read_fetch(inv: Invocation) -> None:
    """Analyse a downloader with an option for the output file. Its row covers the rest."""
    rows.apply(inv)
    call = inv.call
    folder = next(iter(call.values("-d", "--dir")), None)
    outputs = call.values("-o", "--out", "--output")
    for word in outputs or [_named_by(url) for url in call.arguments]:
        inv.saves(_below(folder, word), DOWNLOADED)
    _request(inv, call.arguments, Sent(), [])
    if _is_unencrypted(call.arguments):
        _saves_unverified(inv, call.arguments, stored=True)
    printed = any(inv.scope.place(word.text).kind == places.STREAM for word in outputs)
    inv.output = DOWNLOADED if printed else NOTHING


def read_httpie(inv: Invocation) -> None:
    """Analyse `http METHOD URL ITEM...`, where items are headers, queries and data."""
    call = inv.call
    if _only_helps(inv):
        return
    words = list(call.arguments)
    method = words.pop(0).text if words and words[0].text.isalpha() and len(words) > 1 else ""
    url, items = words[:1], words[1:]
    marks = [(item, _ITEM.match(item.text)) for item in items]
    data = [item for item, mark in marks if mark is None or mark[1] not in {"==", ":"}]
    piped = inv.stdin is not None and not call.has_surely("--ignore-stdin")
    gives = bool(data) or piped or method.upper() not in {"", *_ASKING} or call.has("--raw")
    local = all(is_local(_with_host(w).text) for w in url) and not call.has("--proxy")
    said = [item for item in items if not _is_credential(item)]
    if call.has_surely("--offline"):
        inv.found(Effect.READ, "only shows the request")
    else:
        named = method.upper() or ("POST" if gives else "GET")
        sent = Sent(named, tuple(data), local=local, gives=gives)
        _request(inv, [_with_host(word) for word in url], sent, said)
    inv.reads(*(_file_of(item) for item in data if "@" in item.text))
    outputs = call.values("-o", "--output")
    for word in outputs:
        inv.saves(word, DOWNLOADED)
    if call.has("-d", "--download") and not outputs:
        for word in url:
            inv.saves(_named_by(word), DOWNLOADED)
    inv.output = NOTHING if outputs else DOWNLOADED


def _only_helps(inv: Invocation) -> bool:
    """Return True, and record the finding, if the program only prints its help or version."""
    if inv.call.has_surely("--help") or inv.call.has_surely("--version"):
        inv.found_help()
        return True
    return False


def _request(inv: Invocation, urls: Sequence[Word], sent: Sent, said: Sequence[Word]) -> None:
    """Record the effects of a request to these URLs."""
    for url in urls:
        if scheme(url.text) == "file":
            inv.reads(url._replace(text=url.text[len("file://") :]))
    where = visible(host(urls[0].text)) if urls else "another machine"
    if any(is_metadata(url.text) for url in urls):
        why = "requests this machine's cloud credentials"
        inv.found(Effect.SECRETS, why, type="read_credentials")
    elif sent.local:
        for url in urls:
            texts = [word.text for word in sent.data]
            local_services.request(inv, url.text, sent.method, texts)
    elif sent.gives:
        remedy = "as a read-only request" if urls else ""
        inv.found(Effect.LEAVES, f"sends data to {where}", remedy=remedy)
    elif any(leaks_output(word) for word in [*urls, *said]):
        why = f"sends the output of a local command to {where}"
        inv.found(Effect.LEAVES, why, remedy="with the address written out")
    else:
        inv.found(Effect.READ, f"fetches from {where}", type="web_fetch")


def _is_unencrypted(urls: Sequence[Word]) -> bool:
    """Return True if a URL uses plain HTTP, so that others can change the content."""
    return any(scheme(url.text) == "http" for url in urls)


def _saves_unverified(inv: Invocation, urls: Sequence[Word], *, stored: bool) -> None:
    """Record that the command saves a download that others may have changed."""
    following = inv.scope.piped_to
    unpacked = following is not None and text_of(following).startswith(_UNPACKING)
    if (stored or unpacked) and not all(is_local(url.text) for url in urls):
        why = "saves a download without verifying the server"
        inv.found(Effect.UNKNOWN, why, remedy="over https, with the certificate checked")


def _prints(inv: Invocation) -> bool:
    outputs = inv.call.values("-O", "--output-document")
    return any(inv.scope.place(word.text).kind == places.STREAM for word in outputs)


def _below(folder: Word | None, word: Word) -> Word:
    if folder is None:
        return word
    return word._replace(text=posixpath.join(folder.text, word.text), globs=False)


def _named_by(url: Word) -> Word:
    """Return the default file name for a URL."""
    path = (url.text.partition("://")[2] or url.text).partition("?")[0].partition("/")[2]
    name = posixpath.basename(path.rstrip("/")) or "index.html"
    if HOLE in name or name == "..":
        return url._replace(text=f"./{HOLE}", origin=COMMAND)
    return url._replace(text=f"./{name}", origin=KNOWN, globs=False)


def _file_of(word: Word) -> Word:
    """Return the file name in `name@file`."""
    path = word.text.partition("@")[2].partition(";")[0]
    return word._replace(text=path)


def _is_credential(word: Word) -> bool:
    """Return True if a header carries credentials for the service."""
    name = word.text.partition(":")[0].lower()
    return any(part in name for part in _CREDENTIALS)


def _with_host(word: Word) -> Word:
    """Return the URL that `:3000/path` abbreviates."""
    return word._replace(text=f"localhost{word.text}") if word.text.startswith(":") else word
