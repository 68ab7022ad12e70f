"""Readers of programs that a row of the table cannot describe: a function for each.

A reader is given an `Invocation` and says what it found. Rows name them in `reader`.
"""

from typing import Final

from safetyd.core.shell.readers.buckets import read_bucket
from safetyd.core.shell.readers.containers import read_docker
from safetyd.core.shell.readers.databases import (
    read_database_tool,
    read_mongo,
    read_query,
    read_redis,
    read_sql_client,
)
from safetyd.core.shell.readers.deletions import read_rm
from safetyd.core.shell.readers.downloads import read_curl, read_fetch, read_httpie, read_wget
from safetyd.core.shell.readers.families import read_family
from safetyd.core.shell.readers.git_commands import read_git
from safetyd.core.shell.readers.interpreters import read_deno, read_interpreter
from safetyd.core.shell.readers.local.archives import read_archiver, read_tar, read_zip
from safetyd.core.shell.readers.local.conversions import (
    read_exiftool,
    read_ffmpeg,
    read_openssl,
    read_picture,
    read_ssh_keygen,
)
from safetyd.core.shell.readers.local.file_copies import (
    read_dd,
    read_file_copy,
    read_ln,
    read_mkdir,
    read_rename,
    read_tee,
)
from safetyd.core.shell.readers.local.file_rights import read_chmod, read_chown
from safetyd.core.shell.readers.local.processes import (
    read_debugger,
    read_kill,
    read_kill_by_name,
    read_profiler,
    read_tracer,
)
from safetyd.core.shell.readers.local.searches import read_fd, read_find, read_grep
from safetyd.core.shell.readers.local.text_programs import (
    read_awk,
    read_mlr,
    read_pager,
    read_sed,
)
from safetyd.core.shell.readers.local.wrappers import (
    read_parallel,
    read_screen,
    read_script,
    read_sudo,
    read_taskset,
    read_tmux,
    read_xargs,
)
from safetyd.core.shell.readers.package_runners import read_package_runner, read_venv
from safetyd.core.shell.readers.packages import (
    read_agent,
    read_cargo,
    read_commands,
    read_compiler,
    read_forge,
    read_goals,
    read_java,
    read_pip,
)
from safetyd.core.shell.readers.remote_shells import (
    read_copy,
    read_load,
    read_nc,
    read_rsync,
    read_socat,
    read_ssh,
    read_telnet,
)
from safetyd.core.shell.readers.shell_builtins import (
    read_alias,
    read_cat,
    read_cd,
    read_command,
    read_echo,
    read_environment,
    read_eval,
    read_ls,
    read_mktemp,
    read_pwd,
    read_source,
    read_trap,
)
from safetyd.core.shell.readers.shells import read_shell
from safetyd.core.shell.simple_commands import Reader

READERS: Final[dict[str, Reader]] = {
    "agent": read_agent,
    "alias": read_alias,
    "archiver": read_archiver,
    "awk": read_awk,
    "bucket": read_bucket,
    "cargo": read_cargo,
    "cat": read_cat,
    "cd": read_cd,
    "chmod": read_chmod,
    "chown": read_chown,
    "command": read_command,
    "commands": read_commands,
    "compiler": read_compiler,
    "copy": read_copy,
    "curl": read_curl,
    "database_tool": read_database_tool,
    "dd": read_dd,
    "debugger": read_debugger,
    "deno": read_deno,
    "docker": read_docker,
    "echo": read_echo,
    "environment": read_environment,
    "eval": read_eval,
    "exiftool": read_exiftool,
    "family": read_family,
    "fd": read_fd,
    "fetch": read_fetch,
    "ffmpeg": read_ffmpeg,
    "file_copy": read_file_copy,
    "find": read_find,
    "forge": read_forge,
    "git": read_git,
    "goals": read_goals,
    "grep": read_grep,
    "httpie": read_httpie,
    "interpreter": read_interpreter,
    "java": read_java,
    "kill": read_kill,
    "kill_by_name": read_kill_by_name,
    "ln": read_ln,
    "load": read_load,
    "ls": read_ls,
    "mkdir": read_mkdir,
    "mktemp": read_mktemp,
    "mlr": read_mlr,
    "mongo": read_mongo,
    "nc": read_nc,
    "openssl": read_openssl,
    "package_runner": read_package_runner,
    "pager": read_pager,
    "parallel": read_parallel,
    "picture": read_picture,
    "pip": read_pip,
    "profiler": read_profiler,
    "pwd": read_pwd,
    "query": read_query,
    "redis": read_redis,
    "rename": read_rename,
    "rm": read_rm,
    "rsync": read_rsync,
    "screen": read_screen,
    "script": read_script,
    "sed": read_sed,
    "shell": read_shell,
    "socat": read_socat,
    "source": read_source,
    "sql_client": read_sql_client,
    "ssh": read_ssh,
    "ssh_keygen": read_ssh_keygen,
    "sudo": read_sudo,
    "tar": read_tar,
    "taskset": read_taskset,
    "tee": read_tee,
    "telnet": read_telnet,
    "tmux": read_tmux,
    "tracer": read_tracer,
    "trap": read_trap,
    "venv": read_venv,
    "wget": read_wget,
    "xargs": read_xargs,
    "zip": read_zip,
}
