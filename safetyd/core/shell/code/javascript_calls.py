"""What functions of JavaScript do, by their names.

A name with its owner is looked up whole; the names of methods apply to any owner.
"""

from typing import Final, NamedTuple

from safetyd.core.shell.reading import Access, Effect


class Does(NamedTuple):
    """What a function does: `what` says how its arguments are read."""

    what: str
    access: Access = Access.READ
    at: tuple[int, ...] = (0,)  # the arguments that name files
    effect: Effect = Effect.UNKNOWN
    why: str = ""


_SHELL: Final = Does("shell")  # the first argument is a text for a shell
_WORDS: Final = Does("words")  # a program, and a list of its arguments
_CODE: Final = Does("code")  # the last argument is JavaScript
_OPEN: Final = Does("open")
_REQUIRE: Final = Does("require")

_WRITE: Final = Does("file", Access.WRITE)
_WRITE_SECOND: Final = Does("file", Access.WRITE, (1,))
_WRITE_BOTH: Final = Does("file", Access.WRITE, (0, 1))
_DELETE: Final = Does("file", Access.DELETE)
_READ: Final = Does("file", Access.READ)


def _finding(effect: Effect, why: str) -> Does:
    return Does("find", effect=effect, why=why)


RUNS_UNKNOWN: Final = _finding(Effect.UNKNOWN, "runs programs that its text does not name")
CONNECTS: Final = _finding(Effect.LEAVES, "opens a connection to another machine")
SENDS: Final = _finding(Effect.LEAVES, "sends data to another machine")
ENVIRONMENT: Final = _finding(Effect.SECRETS, "shows every variable of the environment")
_HIDDEN: Final = _finding(Effect.UNKNOWN, "runs code that its text does not show")
_PORT: Final = _finding(Effect.LEAVES, "opens a port")
_ENDS: Final = _finding(Effect.IRREVERSIBLE, "ends processes")
_RIGHTS: Final = _finding(Effect.IRREVERSIBLE, "changes who may use a file")


def _each(does: Does, names: str) -> dict[str, Does]:
    return dict.fromkeys(names.split(), does)


# Modules whose mention gives short names a meaning.
RUNNING_MODULES: Final = frozenset({"child_process", "node:child_process"})
FILE_MODULES: Final = frozenset(
    {"fs", "node:fs", "fs/promises", "node:fs/promises", "fs-extra", "graceful-fs"}
)
OTHER_MODULES: Final = {
    **_each(RUNS_UNKNOWN, "execa shelljs cross-spawn zx node-pty npm-run"),
    **_each(_HIDDEN, "vm node:vm vm2 worker_threads node:worker_threads module node:module"),
    **_each(CONNECTS, "net node:net tls node:tls dgram node:dgram ws socket.io-client ssh2"),
    **_each(_finding(Effect.UNKNOWN, "deletes files by a package"), "rimraf del"),
}

# Beginnings of packages that are clients of services.
CLIENTS: Final = (
    *("@aws-sdk/", "aws-sdk", "@google-cloud/", "@azure/", "@octokit/", "octokit", "@slack/"),
    *("@kubernetes/", "dockerode", "@elastic/", "kafkajs", "firebase-admin", "nodemailer"),
    *("stripe", "twilio", "mongodb", "mongoose", "ioredis", "redis", "mysql2", "@supabase/"),
    "@notionhq/",
)

# Names that have these meanings only where a module is mentioned.
WITH_RUNNING: Final = {
    **_each(_SHELL, "exec execSync"),
    **_each(_WORDS, "spawn spawnSync execFile execFileSync"),
    "fork": Does("script"),
}
WITH_FILES: Final = {
    **_each(_DELETE, "rm unlink rmdir remove emptyDir emptyDirSync removeSync"),
    **_each(_WRITE, "writeFile appendFile truncate outputFile createWriteStream writeJson"),
    **_each(_WRITE_BOTH, "rename move moveSync"),
    **_each(_WRITE_SECOND, "copyFile cp symlink link copy copySync"),
    **_each(_RIGHTS, "chmod chown lchown"),
    "open": _OPEN,
}

METHODS: Final = {
    **_each(_SHELL, "execSync"),
    **_each(_WORDS, "spawnSync execFile execFileSync"),
    **_each(_DELETE, "rmSync unlinkSync rmdirSync"),
    **_each(_WRITE, "writeFileSync appendFileSync truncateSync createWriteStream"),
    **_each(_WRITE_BOTH, "renameSync"),
    **_each(_WRITE_SECOND, "copyFileSync cpSync symlinkSync linkSync"),
    **_each(_READ, "readFileSync readFile createReadStream readdirSync"),
    **_each(_RIGHTS, "chmodSync chownSync"),
    **_each(_PORT, "listen"),
    **_each(_HIDDEN, "constructor runInThisContext runInNewContext runInContext _load dlopen"),
    **_each(_HIDDEN, "createRequire compileFunction __proto__"),
    "openSync": _OPEN,
    "require": _REQUIRE,
}

NAMES: Final = {
    **_each(_CODE, "eval Function"),
    **_each(Does("timer"), "setTimeout setInterval setImmediate"),
    **_each(Does("fetch"), "fetch http.request https.request"),
    **_each(SENDS, "axios axios.post axios.put axios.patch axios.delete axios.request"),
    **_each(SENDS, "got.post got.put got.patch got.delete navigator.sendBeacon"),
    **_each(CONNECTS, "net.connect net.createConnection tls.connect dgram.createSocket"),
    **_each(CONNECTS, "WebSocket EventSource XMLHttpRequest Deno.connect Deno.connectTls"),
    **_each(CONNECTS, "Bun.connect Bun.udpSocket"),
    **_each(_PORT, "Deno.serve Deno.listen Bun.serve Bun.listen"),
    **_each(_HIDDEN, "Reflect.get Reflect.apply Reflect.construct process.binding Worker"),
    **_each(_HIDDEN, "vm.Script Module.wrap process.getBuiltinModule Deno.dlopen"),
    **_each(_ENDS, "process.kill Deno.kill"),
    **_each(_WORDS, "Bun.spawn Bun.spawnSync Deno.run"),
    **_each(Does("deno"), "Deno.Command"),
    **_each(_WRITE, "Bun.write Deno.writeTextFile Deno.writeTextFileSync Deno.writeFile"),
    **_each(_WRITE, "Deno.writeFileSync Deno.truncate Deno.create Deno.createSync"),
    **_each(_DELETE, "Deno.remove Deno.removeSync"),
    **_each(_WRITE_BOTH, "Deno.rename Deno.renameSync"),
    **_each(_WRITE_SECOND, "Deno.copyFile Deno.copyFileSync Deno.symlink Deno.link"),
    **_each(_READ, "Deno.readTextFile Deno.readTextFileSync Deno.readFile Bun.file"),
    **_each(_RIGHTS, "Deno.chmod Deno.chown"),
    **_each(ENVIRONMENT, "Deno.env.toObject"),
    **_each(Does("variable"), "Deno.env.get"),
    "import": _REQUIRE,
    "process": Does("object"),
}
