"""Programs that convert images, audio and video, and programs for keys."""

import re
from typing import Final

from safetyd.core.shell import rows
from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation
from safetyd.core.shell.reading import HOLE, Effect, word_set
from safetyd.core.shell.words import Word

_runs_more = re.compile(
    r"\||@|(msl|ephemeral|url|https?|ftp|mvg|text|label|inline):", re.IGNORECASE
).match
_format = re.compile(r"[A-Za-z0-9]{2,9}:").match
_FLAGS: Final = word_set("""
    -y -n -hide_banner -an -vn -sn -dn -nostdin -stats -nostats -shortest -re -benchmark -copyts
    -ignore_unknown -h -version -formats -codecs -encoders -decoders -filters -protocols -L
""")
_FILES: Final = frozenset({"-vstats_file", "-passlogfile", "-progress", "-dump_attachment"})
_sets_tag = re.compile(r"-[\w:#*-]*[+^<-]?=").match
_PUBLIC: Final = frozenset({"x509", "verify", "crl", "req", "s_client", "pkcs7", "ocsp", "ts"})
_OF_CERTIFICATES: Final = frozenset({"-in", "-CA", "-CAfile", "-CApath", "-cert", "-certfile"})
_LOOKS_AT_KEYS: Final = ("-l", "-F", "-B", "-y", "-L", "-Q", "-H")


def read_picture(inv: Invocation) -> None:
    """Analyse `convert` and similar programs, which write the last file and read the others."""
    words = inv.call.arguments
    if any(_runs_more(word.text) for word in words):
        inv.found(Effect.UNKNOWN, "reads or writes something that is not a plain file")
    inv.found(Effect.WORK, "converts images")
    only_looks = inv.call.name == "identify" or inv.call.verb == "identify"
    written = [] if only_looks else [*words[1:][-1:], *inv.call.values("-write")]
    for word in written:
        inv.writes(_without_format(word))
    inv.reads(*(word for word in words if word not in written))


def _without_format(word: Word) -> Word:
    """Return the file name in `png:file`."""
    named = _format(word.text)
    return word.with_text(word.text[named.end() :]) if named else word


def read_ffmpeg(inv: Invocation) -> None:
    """Analyse `ffmpeg`: files after `-i` are read, others are written."""
    inv.found(Effect.WORK, "converts audio or video")
    before = ""
    for word in inv.call.words:
        text = word.text
        if before == "-i":
            inv.reads(word)
        elif before in _FILES or (not before and not text.startswith("-")):
            _written(inv, word)
        is_option = not before and text.startswith("-") and len(text) > 1 and text not in _FLAGS
        before = text if is_option else ""


def _written(inv: Invocation, word: Word) -> None:
    if "://" in word.text or HOLE in word.text.partition(":")[0]:
        inv.found(Effect.LEAVES, "sends its output to another machine, or to an unknown target")
    else:
        inv.writes(word)


def read_exiftool(inv: Invocation) -> None:
    """Analyse `exiftool`, which shows or sets metadata."""
    texts = [word.text for word in inv.call.words]
    if {"-if", "-p", "-config", "-@", "-api", "-userParam", "-stay_open"} & set(texts):
        inv.found(Effect.UNKNOWN, "runs expressions that are not analysed")
    files = [word for word in inv.call.words if not word.text.startswith("-")]
    sets = any(_sets_tag(text) for text in texts) or {"-delete_original", "-w", "-o"} & set(texts)
    inv.found(Effect.READ, "shows image metadata")
    inv.reads(*files)
    for word in files if sets else []:
        inv.writes(word, "changes")


def read_ssh_keygen(inv: Invocation) -> None:
    """Analyse `ssh-keygen`, which shows or creates keys."""
    call, files = inv.call, inv.call.values("-f")
    if call.has("-D", "-w", "-I", "-s", "-A", "-R", "-Y", "-K", "-e", "-i", "-p"):
        inv.found(Effect.PRIVILEGED, "changes keys or trusted hosts")
    elif call.has(*_LOOKS_AT_KEYS):
        inv.found(Effect.READ, "shows information about a key")
        inv.reads(*files)
    elif files:
        inv.found(Effect.WORK, "creates a key")
        for word in files:
            inv.writes(word)
    else:
        remedy = "with `-f` and a path in the project"
        inv.found(Effect.PRIVILEGED, "creates a key in the home folder", remedy=remedy)


def read_openssl(inv: Invocation) -> None:
    """Analyse `openssl`. Reading certificates is harmless, because they are public."""
    call = inv.call
    if call.verb == "s_client" and inv.stdin is not None and inv.stdin.text is None:
        remedy = "without piped input, or with `</dev/null`"
        inv.found(Effect.LEAVES, "sends its input to another machine", remedy=remedy)
    public_key = call.verb in {"pkey", "rsa", "ec"} and call.has_surely("-pubin")
    if (call.verb not in _PUBLIC and not public_key) or call.has(
        "-key", "-signkey", "-CAkey", "-newkey"
    ):
        rows.apply(inv)
        return
    words = [w for w in call.words if w not in call.values(*_OF_CERTIFICATES)]
    public = [name for name in _OF_CERTIFICATES if call.values(name)]
    own = Call(call.program, call.name, [w for w in words if w.text not in public], inv.stdin)
    if call.verb == "verify":
        own.arguments = own.arguments[:1]
    inv.call = own
    rows.apply(inv)
