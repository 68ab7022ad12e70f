"""Python functions and methods with relevant effects, by name."""

from typing import Final

from safetyd.core.shell.reading import Access, Effect, each, word_set

_READ, _WRITE, _DELETE = Access.READ, Access.WRITE, Access.DELETE

Parameter = tuple[int, str]  # position and name of the parameter
FileParameter = tuple[int, str, Access]

_COPIES: Final[tuple[FileParameter, ...]] = ((0, "src", _READ), (1, "dst", _WRITE))
_MOVES: Final[tuple[FileParameter, ...]] = ((0, "src", _WRITE), (1, "dst", _WRITE))
_PATH_DELETED: Final[tuple[FileParameter, ...]] = ((0, "path", _DELETE),)
_PATH_WRITTEN: Final[tuple[FileParameter, ...]] = ((0, "path", _WRITE),)
_FILE_READ: Final[tuple[FileParameter, ...]] = ((0, "path", _READ),)

# Functions that open files, and the parameters for the files.
FILES: Final[dict[str, tuple[FileParameter, ...]]] = {
    **each(_PATH_DELETED, "os.remove os.unlink os.rmdir shutil.rmtree os.removedirs"),
    **each(
        _PATH_WRITTEN,
        """
        os.mkdir os.makedirs os.chmod os.lchmod os.chown os.lchown os.truncate os.utime os.mkfifo
        os.mknod shutil.chown os.setxattr os.removexattr dbm.open tokenize.open
        """,
    ),
    **each(_COPIES, "shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.copymode"),
    **each(_MOVES, "os.rename os.renames os.replace shutil.move"),
    **dict.fromkeys(
        [f"{module}.dir_util.remove_tree" for module in ("distutils", "setuptools._distutils")],
        ((0, "directory", _DELETE),),
    ),
    **dict.fromkeys(
        [
            f"pathlib.{kind}.{name}"
            for kind in ("Path", "PosixPath")
            for name in ("unlink", "rmdir")
        ],
        ((0, "self", _DELETE),),
    ),
    **dict.fromkeys(
        [
            f"pathlib.{kind}.{name}"
            for kind in ("Path", "PosixPath")
            for name in ("write_text", "write_bytes", "touch", "rename", "replace", "chmod")
        ],
        ((0, "self", _WRITE),),
    ),
    **each(((1, "dst", _WRITE),), "os.symlink os.link"),
    **each(_FILE_READ, "sqlite3.connect numpy.loadtxt pandas.read_csv pandas.read_json"),
    **each(
        ((0, "filename", _WRITE),),
        """
        logging.FileHandler logging.handlers.RotatingFileHandler
        logging.handlers.TimedRotatingFileHandler logging.handlers.WatchedFileHandler
        """,
    ),
    "logging.basicConfig": ((99, "filename", _WRITE),),  # only by name
    "shutil.make_archive": ((0, "base_name", _WRITE),),
    "shutil.unpack_archive": ((0, "filename", _READ), (1, "extract_dir", _WRITE)),
    "urllib.request.urlretrieve": ((1, "filename", _WRITE),),
    "numpy.save": ((0, "file", _WRITE),),
    "numpy.savetxt": ((0, "fname", _WRITE),),
    "torch.save": ((1, "f", _WRITE),),
}
# Functions such as `open`, and the parameter for the mode.
OPENERS: Final[dict[str, Parameter]] = {
    **each(
        (1, "mode"),
        """
        open codecs.open gzip.open bz2.open lzma.open tarfile.open zipfile.ZipFile tarfile.TarFile
        gzip.GzipFile aiofiles.open
        """,
    ),
    "os.open": (1, "flags"),
}
# Methods of paths, with the access to the path and to the arguments.
METHODS: Final[dict[str, tuple[Access, tuple[FileParameter, ...]]]] = {
    **each((_DELETE, ()), "unlink rmdir rmtree"),
    **each((_WRITE, ()), "write_text write_bytes touch mkdir chmod lchmod symlink_to hardlink_to"),
    **each((_READ, ()), "read_text read_bytes"),
    **each((_WRITE, ((0, "target", _WRITE),)), "rename replace"),
}
# Methods of many libraries that write a file.
SAVERS: Final = frozenset(
    {"to_csv", "to_json", "to_parquet", "to_excel", "to_pickle", "to_html", "savefig", "save"}
    | {"extractall", "dump_stats", "save_pretrained"}
)

# Functions that run a shell script.
SHELLS: Final[dict[str, Parameter]] = {
    "os.system": (0, "command"),
    "os.popen": (0, "cmd"),
    "subprocess.getoutput": (0, "cmd"),
    "subprocess.getstatusoutput": (0, "cmd"),
    "asyncio.create_subprocess_shell": (0, "cmd"),
    "asyncio.subprocess.create_subprocess_shell": (0, "cmd"),
    "anyio.run_process": (0, "command"),
    "pydoc.pipepager": (1, "cmd"),
    "pydoc.tempfilepager": (1, "cmd"),
    "pexpect.spawn": (0, "command"),
    "pexpect.run": (0, "command"),
    "invoke.run": (0, "command"),
    "get_ipython().system": (0, "cmd"),
}
SUBPROCESS: Final = frozenset(
    f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen")
)
# Functions that run a program, the position of the program, and whether its arguments are
# separate parameters.
RUNNERS: Final[dict[str, tuple[int, bool]]] = {
    **{f"os.exec{kind}": (0, kind[0] == "l") for kind in ("l", "le", "lp", "lpe")},
    **{f"os.exec{kind}": (0, False) for kind in ("v", "ve", "vp", "vpe")},
    **{f"os.spawn{kind}": (1, True) for kind in ("l", "le", "lp", "lpe")},
    **{f"os.spawn{kind}": (1, False) for kind in ("v", "ve", "vp", "vpe")},
    "os.posix_spawn": (0, False),
    "os.posix_spawnp": (0, False),
}

_UNKNOWN_CODE: Final = "evaluates text that is only known at run time"
_STORED_OBJECTS: Final = "deserialises objects, which can run arbitrary code"
_NATIVE: Final = "calls native code"
_CONNECTS: Final = "opens a connection to another machine"
_OTHER_USER: Final = "switches to another user"

FINDINGS: Final[dict[str, tuple[Effect, str]]] = {
    **each(
        (Effect.UNKNOWN, _STORED_OBJECTS),
        """
        pickle.load pickle.loads pickle.Unpickler marshal.load marshal.loads dill.load dill.loads
        cloudpickle.load cloudpickle.loads shelve.open joblib.load pandas.read_pickle
        jsonpickle.decode yaml.unsafe_load cPickle.load cPickle.loads _pickle.load _pickle.loads
        """,
    ),
    **each(
        (Effect.UNKNOWN, _NATIVE),
        """
        ctypes.CDLL ctypes.PyDLL ctypes.cdll.LoadLibrary ctypes.pydll.LoadLibrary ctypes.memmove
        ctypes.memset ctypes.string_at ctypes.cast cffi.FFI ctypes.CFUNCTYPE mmap.mmap
        """,
    ),
    **each(
        (Effect.UNKNOWN, _UNKNOWN_CODE),
        """
        types.FunctionType types.CodeType code.InteractiveInterpreter code.InteractiveConsole
        doctest.run_docstring_examples doctest.debug_src doctest.debug_script doctest.DocTestRunner
        doctest.DebugRunner code.interact os.startfile
        pydoc.locate pydoc.safeimport pkgutil.resolve_name
        """,
    ),
    **each((Effect.UNKNOWN, "forks processes"), "os.fork os.forkpty"),
    **each(
        (Effect.IRREVERSIBLE, "kills processes"),
        """
        os.killpg signal.pidfd_send_signal psutil.Process().kill psutil.Process().terminate
        """,
    ),
    **each(
        (Effect.PRIVILEGED, _OTHER_USER),
        """
        os.setuid os.setgid os.seteuid os.setegid os.setreuid os.setregid os.setresuid
        os.setresgid os.setgroups os.initgroups os.chroot
        """,
    ),
    **each((Effect.SECRETS, "reads a password"), "keyring.get_password getpass.getpass"),
    **each(
        (Effect.SECRETS, "prints all environment variables"),
        """
        os.environ.items os.environ.values
        """,
    ),
    **each(
        (Effect.UNKNOWN, "downloads and runs other code"),
        """
        torch.hub.load torch.hub.load_state_dict_from_url
        """,
    ),
    "ensurepip.bootstrap": (Effect.INSTALLS, "installs pip"),
}
# Modules in which all calls have the same effect.
MODULES: Final[dict[str, tuple[Effect, str]]] = {
    **each(
        (Effect.LEAVES, _CONNECTS),
        """
        smtplib aiosmtplib ftplib telnetlib nntplib imaplib poplib paramiko fabric asyncssh pysftp
        scp xmlrpc.client websockets websocket boto3 botocore google.cloud azure.storage slack_sdk
        twilio sendgrid stripe tweepy pymongo redis
        """,
    ),
    **each(
        (Effect.UNKNOWN, "runs programs or changes files"),
        """
        distutils.spawn distutils.dir_util distutils.file_util distutils.core distutils.command
        distutils.ccompiler
        """,
    ),
    "plumbum": (Effect.UNKNOWN, "runs programs that are only known at run time"),
}
CONNECTORS: Final[dict[str, tuple[int, str]]] = {
    "socket.create_connection": (0, "address"),
    "socket.socket().connect": (0, "address"),
    "socket.socket().connect_ex": (0, "address"),
    "socket.socket().sendto": (1, "address"),
    "asyncio.open_connection": (0, "host"),
    "webbrowser.open": (0, "url"),
    "webbrowser.open_new": (0, "url"),
    "webbrowser.open_new_tab": (0, "url"),
}
# Functions that look up a name on other machines.
LOOKUPS: Final = word_set("""
    socket.gethostbyname socket.gethostbyname_ex socket.getaddrinfo dns.resolver.resolve
    dns.resolver.query
""")
HTTP: Final = frozenset({"requests", "httpx", "aiohttp", "urllib3", "niquests", "http"})
NETWORK: Final = HTTP | {"urllib", "socket"}
SENDING: Final = frozenset({"post", "put", "patch", "delete", "ws_connect", "post_json"})
ASKING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
BODIES: Final = frozenset({"data", "json", "files", "content", "body", "fields"})

# Functions that only inspect or print their arguments.
SHOWING: Final = frozenset(
    {"print", "help", "isinstance", "issubclass", "hasattr", "type", "repr", "callable", "dir"}
    | {f"inspect.{name}" for name in ("getsource", "signature", "getdoc", "getfile")}
)
# Attributes through which code can access hidden objects.
INSIDES: Final = frozenset(
    {"__subclasses__", "__globals__", "__builtins__", "__getattribute__", "__code__", "__closure__"}
    | {"f_globals", "f_locals", "f_builtins", "__loader__", "__reduce__", "__reduce_ex__"}
)
# Methods that change a list, and those that only add to its end.
CHANGING: Final = word_set("""
    insert reverse sort pop remove clear __setitem__ __delitem__ __init__ __iadd__ __imul__
""")
CHANGERS: Final = frozenset({"list", "operator", "random", "heapq", "bisect"})  # their modules
GROWING: Final = frozenset({"append", "extend"})
# Functions that return the variables of the running code.
NAMESPACES: Final = frozenset({"globals()", "locals()", "vars()", "__main__.__dict__"})
# Modules whose functions the analysis evaluates.
EVALUATED: Final = word_set("""
    __main__ builtins __builtins__ os os.path pathlib shlex tempfile glob importlib
""")
RUNNING_MODULES: Final = frozenset(
    {"os", "subprocess", "shutil", "builtins", "__builtins__", "importlib", "posix", "sys", "pty"}
)
