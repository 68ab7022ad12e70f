"""What functions of scripts come to, by language and name.

A name with its owner is looked up whole; the names of methods stand for any owner.
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


SHELL: Final = Does("shell")  # the first argument is a text for a shell
SYSTEM: Final = Does("system")  # one argument is a text for a shell, more are words
WORDS: Final = Does("words")  # a program, and a list of its arguments
CODE: Final = Does("code")  # the first argument is a source of the same language
SCRIPT: Final = Does("script")  # the first argument is a file that is run
OPEN: Final = Does("open")
VARIABLE: Final = Does("variable")  # of the environment
ASKS: Final = Does("fetch")
CALLS: Final = Does("name")  # the first argument is a function's name
CALLBACK: Final = Does("callback")  # one of the arguments may be a function's name

_WRITE: Final = Does("file", Access.WRITE)
_WRITE_SECOND: Final = Does("file", Access.WRITE, (1,))
_WRITE_BOTH: Final = Does("file", Access.WRITE, (0, 1))
_DELETE: Final = Does("file", Access.DELETE)
_DELETE_ALL: Final = Does("files", Access.DELETE)
_READ: Final = Does("file", Access.READ)


def _finding(effect: Effect, why: str) -> Does:
    return Does("find", effect=effect, why=why)


RUNS_UNKNOWN: Final = _finding(Effect.UNKNOWN, "runs programs that its text does not name")
_HIDDEN: Final = _finding(Effect.UNKNOWN, "runs code that its text does not show")
_CONNECTS: Final = _finding(Effect.LEAVES, "opens a connection to another machine")
_SENDS: Final = _finding(Effect.LEAVES, "sends data to another machine")
_PORT: Final = _finding(Effect.LEAVES, "opens a port")
_ENDS: Final = _finding(Effect.IRREVERSIBLE, "ends processes")
_COPIES: Final = _finding(Effect.UNKNOWN, "starts copies of itself")
_RIGHTS: Final = _finding(Effect.IRREVERSIBLE, "changes who may use a file")
_OBJECTS: Final = _finding(Effect.UNKNOWN, "loads stored objects, which may run anything")
ENVIRONMENT: Final = _finding(Effect.SECRETS, "shows every variable of the environment")
_INSTALLS: Final = _finding(Effect.INSTALLS, "installs packages")


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
    **_each(_CONNECTS, "net node:net tls node:tls dgram node:dgram ws socket.io-client ssh2"),
    **_each(Does("find", effect=Effect.UNKNOWN, why="deletes files by a package"), "rimraf del"),
}

# Beginnings of packages that are clients of services.
CLIENTS: Final = (
    *("@aws-sdk/", "aws-sdk", "@google-cloud/", "@azure/", "@octokit/", "octokit", "@slack/"),
    *(
        "@kubernetes/",
        "dockerode",
        "@elastic/",
        "kafkajs",
        "firebase-admin",
        "nodemailer",
        "stripe",
    ),
    *("twilio", "mongodb", "mongoose", "ioredis", "redis", "mysql2", "@supabase/", "@notionhq/"),
)
CONNECTS: Final = _CONNECTS

_JS_RUNS: Final = {
    **_each(SHELL, "exec execSync"),
    **_each(WORDS, "spawn spawnSync execFile execFileSync"),
    "fork": SCRIPT,
}
_JS_FILES: Final = {
    **_each(_DELETE, "rm unlink rmdir remove emptyDir emptyDirSync removeSync"),
    **_each(_WRITE, "writeFile appendFile truncate outputFile createWriteStream writeJson"),
    **_each(_WRITE_BOTH, "rename move moveSync"),
    **_each(_WRITE_SECOND, "copyFile cp symlink link copy copySync"),
    **_each(_RIGHTS, "chmod chown lchown"),
    "open": OPEN,
}
# By language: names that are only meant so where a module is mentioned.
WITH_RUNNING: Final = {"javascript": _JS_RUNS}
WITH_FILES: Final = {"javascript": _JS_FILES}

METHODS: Final[dict[str, dict[str, Does]]] = {
    "javascript": {
        **_each(SHELL, "execSync"),
        **_each(WORDS, "spawnSync execFile execFileSync"),
        **_each(_DELETE, "rmSync unlinkSync rmdirSync"),
        **_each(_WRITE, "writeFileSync appendFileSync truncateSync createWriteStream"),
        **_each(_WRITE_BOTH, "renameSync"),
        **_each(_WRITE_SECOND, "copyFileSync cpSync symlinkSync linkSync"),
        **_each(_READ, "readFileSync readFile createReadStream readdirSync"),
        **_each(_RIGHTS, "chmodSync chownSync"),
        **_each(_PORT, "listen"),
        **_each(_HIDDEN, "constructor runInThisContext runInNewContext runInContext _load dlopen"),
        **_each(_HIDDEN, "createRequire compileFunction __proto__"),
        "openSync": OPEN,
        "require": Does("require"),
    },
    "perl": {
        **_each(_DELETE_ALL, "rmtree remove_tree"),
        **_each(_SENDS, "post put post_form request"),
        **_each(_WRITE_SECOND, "copy cp mirror getstore"),
        **_each(_WRITE_BOTH, "move mv"),
    },
    "ruby": {
        **_each(_HIDDEN, "instance_eval class_eval module_eval instance_exec binding const_get"),
        **_each(CALLS, "send public_send __send__ method"),
        **_each(_SENDS, "post post_form put patch"),
        **_each(_OBJECTS, "unsafe_load"),
    },
    "php": {},
    "lua": _each(SHELL, "execute popen"),
    "r": {},
    "julia": {},
}

NAMES: Final[dict[str, dict[str, Does]]] = {
    "javascript": {
        **_each(CODE, "eval Function"),
        **_each(Does("timer"), "setTimeout setInterval setImmediate"),
        **_each(ASKS, "fetch http.request https.request"),
        **_each(_SENDS, "axios axios.post axios.put axios.patch axios.delete axios.request"),
        **_each(_SENDS, "got.post got.put got.patch got.delete navigator.sendBeacon"),
        **_each(_CONNECTS, "net.connect net.createConnection tls.connect dgram.createSocket"),
        **_each(_CONNECTS, "WebSocket EventSource XMLHttpRequest Deno.connect Deno.connectTls"),
        **_each(_CONNECTS, "Bun.connect Bun.udpSocket"),
        **_each(_PORT, "Deno.serve Deno.listen Bun.serve Bun.listen"),
        **_each(_HIDDEN, "Reflect.get Reflect.apply Reflect.construct process.binding Worker"),
        **_each(_HIDDEN, "vm.Script Module.wrap process.getBuiltinModule"),
        **_each(_ENDS, "process.kill Deno.kill"),
        **_each(WORDS, "Bun.spawn Bun.spawnSync Deno.run"),
        **_each(Does("deno"), "Deno.Command"),
        **_each(_WRITE, "Bun.write Deno.writeTextFile Deno.writeTextFileSync Deno.writeFile"),
        **_each(_WRITE, "Deno.writeFileSync Deno.truncate Deno.create Deno.createSync"),
        **_each(_DELETE, "Deno.remove Deno.removeSync"),
        **_each(_WRITE_BOTH, "Deno.rename Deno.renameSync"),
        **_each(_WRITE_SECOND, "Deno.copyFile Deno.copyFileSync Deno.symlink Deno.link"),
        **_each(_READ, "Deno.readTextFile Deno.readTextFileSync Deno.readFile Bun.file"),
        **_each(_RIGHTS, "Deno.chmod Deno.chown"),
        **_each(_HIDDEN, "Deno.dlopen"),
        **_each(ENVIRONMENT, "Deno.env.toObject"),
        **_each(VARIABLE, "Deno.env.get"),
        "import": Does("import"),
        "process": Does("object"),
    },
    "perl": {
        **_each(SYSTEM, "system exec"),
        **_each(SHELL, "readpipe"),
        **_each(CODE, "eval"),
        **_each(_HIDDEN, "AUTOLOAD syscall dbmopen"),
        **_each(_COPIES, "fork"),
        **_each(SCRIPT, "do require"),
        **_each(_DELETE_ALL, "unlink rmdir"),
        **_each(_WRITE, "truncate sysopen"),
        **_each(_WRITE_BOTH, "rename"),
        **_each(_WRITE_SECOND, "link symlink"),
        **_each(_RIGHTS, "chmod chown"),
        **_each(_ENDS, "kill"),
        **_each(_CONNECTS, "socket connect IO::Socket::INET IO::Socket::INET->new IO::Socket::SSL"),
        **_each(_CONNECTS, "IO::Socket IO::Socket::IP IO::Socket::SSL->new IO::Socket::IP->new"),
        **_each(RUNS_UNKNOWN, "IPC::Open2 IPC::Open3 IPC::Run open2 open3 run3"),
        **_each(_OBJECTS, "Storable::thaw Storable::retrieve"),
        "open": OPEN,
    },
    "ruby": {
        **_each(_COPIES, "fork Process.fork"),
        **_each(SYSTEM, "system exec spawn IO.popen popen PTY.spawn Open3.capture2 Open3.capture3"),
        **_each(SYSTEM, "Open3.capture2e Open3.popen3 Open3.popen2 Open3.popen2e Open3.pipeline"),
        **_each(CODE, "eval"),
        **_each(SCRIPT, "load require require_relative"),
        **_each(_DELETE_ALL, "File.delete File.unlink FileUtils.rm FileUtils.rm_f FileUtils.rm_r"),
        **_each(_DELETE_ALL, "FileUtils.rm_rf FileUtils.rmtree FileUtils.remove_entry"),
        **_each(_DELETE_ALL, "FileUtils.remove FileUtils.remove_dir FileUtils.remove_file rm_rf"),
        **_each(_DELETE_ALL, "Dir.rmdir Dir.delete Dir.unlink FileUtils.remove_entry_secure rm_r"),
        **_each(_WRITE, "File.write IO.write File.binwrite IO.binwrite File.truncate"),
        **_each(_WRITE_BOTH, "File.rename FileUtils.mv FileUtils.move"),
        **_each(_WRITE_SECOND, "FileUtils.cp FileUtils.cp_r FileUtils.ln_s FileUtils.install"),
        **_each(_WRITE_SECOND, "File.symlink File.link FileUtils.ln FileUtils.copy"),
        **_each(_RIGHTS, "File.chmod File.chown FileUtils.chmod FileUtils.chmod_R FileUtils.chown"),
        **_each(_READ, "File.read File.readlines IO.read File.foreach IO.readlines File.binread"),
        **_each(_ENDS, "Process.kill"),
        **_each(_CONNECTS, "TCPSocket.new TCPSocket.open UDPSocket.new Socket.new Socket.tcp"),
        **_each(_CONNECTS, "TCPSocket UDPSocket Net::SSH.start Net::FTP Net::SMTP"),
        **_each(_PORT, "TCPServer.new TCPServer WEBrick::HTTPServer.new"),
        **_each(_SENDS, "Net::HTTP.post Net::HTTP.post_form Net::HTTP::Post.new"),
        **_each(_SENDS, "Net::HTTP::Put.new Net::HTTP::Delete.new Net::HTTP::Patch.new"),
        **_each(_OBJECTS, "Marshal.load YAML.unsafe_load"),
        **_each(_HIDDEN, "syscall Fiddle Fiddle.dlopen"),
        **_each(ENVIRONMENT, "ENV ENV.to_h ENV.each ENV.inspect ENV.map ENV.to_a ENV.values"),
        **_each(ENVIRONMENT, "ENV.select ENV.sort ENV.to_s ENV.reject ENV.filter ENV.each_pair"),
        **_each(VARIABLE, "ENV.fetch"),
        **_each(OPEN, "open File.open File.new IO.open"),
    },
    "php": {
        **_each(SHELL, "system exec passthru shell_exec popen proc_open pcntl_exec"),
        **_each(CODE, "eval assert create_function"),
        **_each(CALLS, "call_user_func call_user_func_array"),
        **_each(CALLBACK, "array_map array_filter usort uasort array_walk array_reduce"),
        **_each(CALLBACK, "register_shutdown_function preg_replace_callback is_callable"),
        **_each(SCRIPT, "include include_once require require_once"),
        **_each(_DELETE, "unlink rmdir"),
        **_each(_WRITE, "file_put_contents touch mkdir ftruncate"),
        **_each(_WRITE_BOTH, "rename"),
        **_each(_WRITE_SECOND, "copy symlink link move_uploaded_file"),
        **_each(_READ, "file_get_contents readfile file"),
        **_each(_RIGHTS, "chmod chown chgrp"),
        **_each(_ENDS, "posix_kill"),
        **_each(_COPIES, "pcntl_fork"),
        **_each(_CONNECTS, "fsockopen pfsockopen stream_socket_client socket_connect ftp_connect"),
        **_each(_CONNECTS, "ssh2_connect curl_exec curl_multi_exec"),
        **_each(_PORT, "stream_socket_server socket_listen"),
        **_each(Does("find", effect=Effect.LEAVES, why="sends mail"), "mail mb_send_mail"),
        **_each(_OBJECTS, "unserialize"),
        **_each(_HIDDEN, "dl ReflectionFunction FFI::cdef FFI extract"),
        **_each(ENVIRONMENT, "$_ENV $_SERVER phpinfo"),
        **_each(VARIABLE, "getenv"),
        "fopen": OPEN,
    },
    "lua": {
        **_each(SHELL, "os.execute io.popen"),
        **_each(CODE, "load loadstring"),
        **_each(SCRIPT, "dofile loadfile"),
        **_each(_DELETE, "os.remove"),
        **_each(_WRITE_BOTH, "os.rename"),
        **_each(_WRITE, "io.output"),
        **_each(_READ, "io.lines io.input"),
        **_each(_HIDDEN, "package.loadlib debug.getregistry setfenv getfenv _G _ENV"),
        **_each(VARIABLE, "os.getenv"),
        "io.open": OPEN,
    },
    "r": {
        **_each(SHELL, "system shell pipe"),
        **_each(WORDS, "system2 processx::run processx::process$new"),
        **_each(_HIDDEN, "eval parse do.call dyn.load match.fun evalq eval.parent"),
        **_each(CALLBACK, "get lapply sapply Map Reduce Filter mapply vapply apply"),
        **_each(SCRIPT, "source sys.source"),
        **_each(_DELETE_ALL, "unlink file.remove fs::file_delete fs::dir_delete"),
        **_each(_WRITE, "sink file.create ggsave ggplot2::ggsave png pdf jpeg svg"),
        **_each(Does("file", Access.WRITE, (1,)), "write.csv write.table saveRDS writeLines"),
        **_each(Does("file", Access.WRITE, (1,)), "download.file file.copy write file.symlink"),
        **_each(_WRITE_BOTH, "file.rename"),
        **_each(_READ, "read.csv readLines readRDS read.table"),
        **_each(_CONNECTS, "socketConnection make.socket"),
        **_each(_SENDS, "httr::POST httr::PUT httr::DELETE httr::PATCH POST"),
        **_each(_INSTALLS, "install.packages remotes::install_github devtools::install_github"),
        **_each(_INSTALLS, "BiocManager::install pak::pak update.packages remove.packages"),
        **_each(VARIABLE, "Sys.getenv"),
        **_each(_RIGHTS, "Sys.chmod"),
        "file": OPEN,
    },
    "julia": {
        **_each(_HIDDEN, "eval Meta.parse include_string @eval Core.eval getfield invokelatest"),
        **_each(_HIDDEN, "ccall @ccall Libdl.dlopen"),
        **_each(RUNS_UNKNOWN, "Cmd"),
        **_each(SCRIPT, "include"),
        **_each(_DELETE, "rm Base.rm Base.Filesystem.rm"),
        **_each(_WRITE, "write Base.write touch CSV.write"),
        **_each(_WRITE_BOTH, "mv Base.mv"),
        **_each(_WRITE_SECOND, "cp download Downloads.download symlink"),
        **_each(_READ, "readlines readdir"),
        **_each(_RIGHTS, "chmod chown"),
        **_each(_ENDS, "kill"),
        **_each(_CONNECTS, "connect Sockets.connect"),
        **_each(_PORT, "listen Sockets.listen"),
        **_each(_SENDS, "HTTP.post HTTP.put HTTP.delete HTTP.patch HTTP.request"),
        **_each(_INSTALLS, "Pkg.add Pkg.develop Pkg.update Pkg.rm"),
        **_each(_OBJECTS, "deserialize Serialization.deserialize"),
        **_each(ENVIRONMENT, "ENV"),
        "open": OPEN,
    },
}
# Owners that may stand before a name, or be left out.
OWNERS: Final = (
    *("globalThis.", "global.", "window.", "CORE::GLOBAL::", "CORE::", "Kernel.", "Kernel::"),
    *("Process.", "base::", "utils::", "Base.", "\\"),
)
