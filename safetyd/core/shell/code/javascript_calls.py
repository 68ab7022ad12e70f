"""JavaScript functions with relevant effects, by name.

`NAMES` are full dotted names; `METHODS` apply to any object.
"""

from typing import Final, NamedTuple

from safetyd.core.shell.reading import Access, Effect, each


class Does(NamedTuple):
    """The effect of a function. `what` says how to interpret its arguments."""

    what: str
    access: Access = Access.READ
    at: tuple[int, ...] = (0,)  # arguments that are files
    effect: Effect = Effect.UNKNOWN
    why: str = ""


_SHELL: Final = Does("shell")  # the first argument is a shell script
_WORDS: Final = Does("words")  # the arguments are a program and a list of its arguments
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


RUNS_UNKNOWN: Final = _finding(Effect.UNKNOWN, "runs unknown programs")
CONNECTS: Final = _finding(Effect.LEAVES, "opens a connection to another machine")
SENDS: Final = _finding(Effect.LEAVES, "sends data to another machine")
ENVIRONMENT: Final = _finding(Effect.SECRETS, "prints all environment variables")
_HIDDEN: Final = _finding(Effect.UNKNOWN, "loads or evaluates other code")
_PORT: Final = _finding(Effect.LEAVES, "opens a port")
_ENDS: Final = _finding(Effect.IRREVERSIBLE, "kills processes")
_RIGHTS: Final = _finding(Effect.IRREVERSIBLE, "changes file permissions")


# Modules that define short names when they are loaded.
RUNNING_MODULES: Final = frozenset({"child_process", "node:child_process"})
FILE_MODULES: Final = frozenset(
    {"fs", "node:fs", "fs/promises", "node:fs/promises", "fs-extra", "graceful-fs"}
)
OTHER_MODULES: Final = {
    **each(RUNS_UNKNOWN, "execa shelljs cross-spawn zx node-pty npm-run"),
    **each(_HIDDEN, "vm node:vm vm2 worker_threads node:worker_threads module node:module"),
    **each(CONNECTS, "net node:net tls node:tls dgram node:dgram ws socket.io-client ssh2"),
    **each(_finding(Effect.UNKNOWN, "deletes files with a package"), "rimraf del"),
}

# Prefixes of packages that connect to services.
CLIENTS: Final = (
    *("@aws-sdk/", "aws-sdk", "@google-cloud/", "@azure/", "@octokit/", "octokit", "@slack/"),
    *("@kubernetes/", "dockerode", "@elastic/", "kafkajs", "firebase-admin", "nodemailer"),
    *("stripe", "twilio", "mongodb", "mongoose", "ioredis", "redis", "mysql2", "@supabase/"),
    "@notionhq/",
)

# Names that have these effects only if the module is loaded.
WITH_RUNNING: Final = {
    **each(_SHELL, "exec execSync"),
    **each(_WORDS, "spawn spawnSync execFile execFileSync"),
    "fork": Does("script"),
}
WITH_FILES: Final = {
    **each(_DELETE, "rm unlink rmdir remove emptyDir emptyDirSync removeSync"),
    **each(_WRITE, "writeFile appendFile truncate outputFile createWriteStream writeJson"),
    **each(_WRITE_BOTH, "rename move moveSync"),
    **each(_WRITE_SECOND, "copyFile cp symlink link copy copySync"),
    **each(_RIGHTS, "chmod chown lchown"),
    "open": _OPEN,
}

METHODS: Final = {
    **each(_SHELL, "execSync"),
    **each(_WORDS, "spawnSync execFile execFileSync"),
    **each(_DELETE, "rmSync unlinkSync rmdirSync"),
    **each(_WRITE, "writeFileSync appendFileSync truncateSync createWriteStream"),
    **each(_WRITE_BOTH, "renameSync"),
    **each(_WRITE_SECOND, "copyFileSync cpSync symlinkSync linkSync"),
    **each(_READ, "readFileSync readFile createReadStream readdirSync"),
    **each(_RIGHTS, "chmodSync chownSync"),
    **each(_PORT, "listen"),
    **each(_HIDDEN, "constructor runInThisContext runInNewContext runInContext _load dlopen"),
    **each(_HIDDEN, "createRequire compileFunction __proto__"),
    "openSync": _OPEN,
    "require": _REQUIRE,
}

NAMES: Final = {
    **each(_CODE, "eval Function"),
    **each(Does("timer"), "setTimeout setInterval setImmediate"),
    **each(Does("fetch"), "fetch http.request https.request"),
    **each(SENDS, "axios axios.post axios.put axios.patch axios.delete axios.request"),
    **each(SENDS, "got.post got.put got.patch got.delete navigator.sendBeacon"),
    **each(CONNECTS, "net.connect net.createConnection tls.connect dgram.createSocket"),
    **each(CONNECTS, "WebSocket EventSource XMLHttpRequest Deno.connect Deno.connectTls"),
    **each(CONNECTS, "Bun.connect Bun.udpSocket"),
    **each(_PORT, "Deno.serve Deno.listen Bun.serve Bun.listen"),
    **each(_HIDDEN, "Reflect.get Reflect.apply Reflect.construct process.binding Worker"),
    **each(_HIDDEN, "vm.Script Module.wrap process.getBuiltinModule Deno.dlopen"),
    **each(_ENDS, "process.kill Deno.kill"),
    **each(_WORDS, "Bun.spawn Bun.spawnSync Deno.run"),
    **each(Does("deno"), "Deno.Command"),
    **each(_WRITE, "Bun.write Deno.writeTextFile Deno.writeTextFileSync Deno.writeFile"),
    **each(_WRITE, "Deno.writeFileSync Deno.truncate Deno.create Deno.createSync"),
    **each(_DELETE, "Deno.remove Deno.removeSync"),
    **each(_WRITE_BOTH, "Deno.rename Deno.renameSync"),
    **each(_WRITE_SECOND, "Deno.copyFile Deno.copyFileSync Deno.symlink Deno.link"),
    **each(_READ, "Deno.readTextFile Deno.readTextFileSync Deno.readFile Bun.file"),
    **each(_RIGHTS, "Deno.chmod Deno.chown"),
    **each(ENVIRONMENT, "Deno.env.toObject"),
    **each(Does("variable"), "Deno.env.get"),
    "import": _REQUIRE,
    "process": Does("object"),
}
