"""Analysis of Python code."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.shell.code.python_code import read_python
from safetyd.core.shell.reading import HOLE, Access, Code, Effect, Touch
from tests.core.shell.code.expected import deleted, found, read, runs, shell, written

NOTHING: Final = Code()
UNKNOWN_CODE: Final = (Effect.UNKNOWN, "evaluates text that is only known at run time")
HIDDEN: Final = (Effect.UNKNOWN, "calls a function whose name is only known at run time")
INSIDE: Final = (Effect.UNKNOWN, "uses Python internals to access hidden objects")
UNREADABLE: Final = (Effect.UNKNOWN, "cannot be analysed: it is not valid Python")
TOO_LONG: Final = (Effect.UNKNOWN, "cannot be analysed: it is too long")
TOO_DEEP: Final = (Effect.UNKNOWN, "cannot be analysed: it is nested too deeply")
OBJECTS: Final = (Effect.UNKNOWN, "deserialises objects, which can run arbitrary code")
SENDS: Final = (Effect.LEAVES, "sends data to another machine")
CONNECTS: Final = (Effect.LEAVES, "opens a connection to another machine")
ENDS: Final = (Effect.IRREVERSIBLE, "kills processes")
ENVIRONMENT: Final = (Effect.SECRETS, "prints all environment variables")


HARMLESS: Final = [
    "print(1 + 1)",
    "import sys, json; print(json.load(sys.stdin)['name'])",
    "import re; print(re.sub('a', 'b', 'cat'))",
    "import numpy as np; print(np.arange(5).sum())",
    "import torch; print(torch.__version__, torch.cuda.is_available())",
    "from mypackage.core import thing; thing.run()",
    "import sys; sys.path.insert(0, '.'); import app; print(app.VERSION)",
    "import ast; print(ast.dump(ast.parse('1')))",
    "import ast; print(ast.literal_eval('[1]'))",
    "import os; print(os.path.exists('/etc/passwd'), os.listdir('.'), os.getcwd())",
    "print('rm -rf /', \"os.system('ls')\")",
    "# os.system('rm -rf /')\npass",
    "import requests; print(requests.get('https://example.org').status_code)",
    "import urllib.request as u; print(u.urlopen('https://example.org').read())",
    "import httpx\nwith httpx.Client() as c:\n    print(c.get('https://example.org').text)",
    "import requests; requests.post('http://localhost:8000/x', json={})",
    "import requests; requests.request('GET', 'https://example.org')",
    "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])",
    "import socket; s = socket.socket(); s.connect(('127.0.0.1', 80))",
    "from fastapi.testclient import TestClient; TestClient(app).post('/x', json={})",
    "def f(a, *b, **c) -> int:\n    return a\nprint(f(*[1], **{}))",
    "class A(B):\n    x = 1\n    def m(self): return self.x\nprint(A().m())",
    "x = 'abc'.replace('a', 'b'); print(x.replace(x, 'y'))",
    "df = load(); print(df.rename(columns={'a': 'b'}))",
    "import subprocess\ndef f(p: subprocess.Popen) -> subprocess.Popen: return p",
    "import subprocess; print(isinstance(1, subprocess.Popen), subprocess.run.__doc__)",
    "import os; os.environ['A'] = '1'; print(os.environ['PATH'], sorted(os.environ))",
    "import os; os.kill(os.getpid(), 15); os.kill(1, 0)",
    "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)",
    "import yaml; yaml.load('a', Loader=yaml.SafeLoader); yaml.safe_load('a')",
    "import torch; torch.load('m.pt', weights_only=True)",
    "compile('1 +', 'x', 'exec')",
    "exec('print(1)'); eval('1 + 1')",
    "import importlib; importlib.import_module('json').dumps(1)",
    "import os; getattr(os, 'sep'); getattr(thing, name)",
    "import webbrowser; webbrowser.open('file:///tmp/report.html')",
    "import timeit; timeit.timeit('1 + 1'); timeit.timeit(lambda: 1)",
    "match x:\n    case [a, *b]: print(a, b)\n    case {'k': v}: print(v)\n    case y: pass",
    "try:\n    pass\nexcept ValueError as e:\n    print(e)",
    "async def f():\n    async with g() as h:\n        async for i in h: await i",
    "import operator; operator.attrgetter('name')",
    "print('a\\d')",
    "",
]

EFFECTS: Final = [
    # Files.
    ("print(open('a.txt').read())", read("a.txt")),
    ("open('a', 'rb'); open('b', mode='r')", read("a", "b")),
    ("open('a', 'w').write('x')", written("a")),
    ("open('a', 'ab'); open('b', 'r+'); open('c', mode='x')", written("a", "b", "c")),
    ("open('a', mode)", written("a")),
    ("open(*a)", written(HOLE)),
    (
        "import io, codecs; io.open('a', 'w'); codecs.open('b')",
        written("a")._replace(touches=(Touch("a", Access.WRITE), Touch("b", Access.READ))),
    ),
    ("import os; os.open('a', os.O_RDONLY)", read("a")),
    ("import os; os.open('a', os.O_WRONLY | os.O_CREAT)", written("a")),
    (
        "import tarfile; tarfile.open('a.tgz', 'r:gz').extractall('out')",
        Code(touches=(Touch("out", Access.WRITE), Touch("a.tgz", Access.READ))),
    ),
    ("from pathlib import Path; Path('a').write_text('x')", written("a")),
    ("from pathlib import Path; print(Path('a').read_text())", read("a")),
    (
        "import pathlib; (pathlib.Path.home() / '.ssh' / 'id_rsa').read_bytes()",
        read("~/.ssh/id_rsa"),
    ),
    (
        "from pathlib import Path; Path('a', 'b').open('w'); Path('c').open()",
        Code(touches=(Touch("a/b", Access.WRITE), Touch("c", Access.READ))),
    ),
    ("from pathlib import Path; Path().joinpath('a').resolve().unlink()", deleted("./a")),
    ("from pathlib import Path; Path('a/b/c').parent.rmdir()", deleted("a/b")),
    (
        "from pathlib import Path; Path('a').rename('/b'); Path('c').replace('d')",
        written("a", "/b", "c", "d"),
    ),
    ("from pathlib import Path; (Path('out') / Path('/etc/x').name).touch()", written("out/x")),
    ("from pathlib import Path; Path('a').with_suffix('.b').unlink()", deleted(HOLE)),
    (
        "from pathlib import Path\nfor p in Path('.').rglob('*.pyc'): p.unlink()",
        deleted("./**/*.pyc"),
    ),
    ("from pathlib import Path\n[p.unlink() for p in Path('a').glob('*.o')]", deleted("a/*.o")),
    ("from pathlib import Path\nfor p in sorted(Path('a').iterdir()): p.unlink()", deleted("a/*")),
    ("import glob, os\nfor f in glob.glob('b/*.o'): os.remove(f)", deleted("b/*.o")),
    ("import os\nfor f in ['a', 'b']: os.unlink(f)", deleted("a", "b")),
    ("import os\nfor f in names: os.unlink(f)", deleted(HOLE)),
    ("import os\nfor f, g in pairs: os.unlink(f)", deleted(HOLE)),
    ("import shutil; shutil.rmtree('/')", deleted("/")),
    ("from shutil import rmtree as r\np = '/'\nr(p)", deleted("/")),
    ("p = '/'; __import__('shutil').rmtree(p)", deleted("/")),
    ("import shutil as s; s.rmtree(path='~')", deleted("~")),
    ("import shutil\ndef f(p): shutil.rmtree(p)\nf('/')", deleted(HOLE)),
    ("import shutil\np = 'a'\np = 'b'\nshutil.rmtree(p)", deleted("a", "b")),
    ("import shutil\np = 'a'\np += x\nshutil.rmtree(p)", deleted("a", HOLE)),
    ("import shutil\np = p\nshutil.rmtree(p)", deleted(HOLE)),
    ("import shutil\na, b = 'x', 'y'\nshutil.rmtree(b)", deleted("y")),
    ("import shutil\na, b = c\nshutil.rmtree(b)", deleted(HOLE)),
    ("import shutil\np: str = 'a'\nshutil.rmtree(p)", deleted("a")),
    ("import shutil\nif (p := 'a'): shutil.rmtree(p)", deleted("a")),
    ("import shutil; shutil.rmtree('a' if x else 'b')", deleted("a", "b")),
    ("import shutil; shutil.rmtree(['a', 'b'][1]); shutil.rmtree(['a'][3])", deleted("b", HOLE)),
    ("import os, shutil; shutil.rmtree(os.path.join('a', 'b', x))", deleted(f"a/b/{HOLE}")),
    ("import os, shutil; shutil.rmtree(os.path.join('a', '/b'))", deleted("/b")),
    ("import os; os.remove(os.path.expanduser('~/x'))", deleted("~/x")),
    ("import os; os.remove(os.environ['HOME'] + '/x')", deleted("~/x")),
    ("import os; os.remove(os.getenv('HOME') + '/x')", deleted("~/x")),
    (
        "import os; os.remove(os.path.dirname('/a/b')); os.remove(os.path.dirname('a'))",
        deleted("/a", "."),
    ),
    (
        "import os; os.remove(os.path.dirname('/a')); os.remove(os.path.dirname('.'))",
        deleted("/", HOLE),
    ),
    ("import os; os.remove(f'/tmp/{x}/b')", deleted(f"/tmp/{HOLE}/b")),
    ("import os; os.remove(f'{x!r}')", deleted(HOLE)),
    (
        "import os; os.remove('/tmp/%s.txt' % x); os.remove('{}/a{0!r}'.format(x))",
        deleted(f"/tmp/{HOLE}.txt", f"{HOLE}/a{HOLE}"),
    ),
    ("import os; os.remove('/'.join(['a', 'b'])); os.remove(b'c'.decode())", deleted("a/b", "c")),
    ("import os; list(map(os.remove, names))", deleted(HOLE)),
    (
        "import tempfile, shutil\nwith tempfile.TemporaryDirectory() as d: shutil.rmtree(d)",
        deleted(f"/tmp/{HOLE}"),
    ),
    (
        "import shutil; shutil.copy('a', '/b')",
        Code(touches=(Touch("a", Access.READ), Touch("/b", Access.WRITE))),
    ),
    ("import os, shutil; os.rename('a', 'b'); shutil.move('c', 'd')", written("a", "b", "c", "d")),
    (
        "import os; os.chmod('/a', 0o777); os.symlink('x', '/b'); os.makedirs('c')",
        written("/a", "/b", "c"),
    ),
    (
        "thing.unlink(); other.write_text('x'); a.replace(b); c.open('w')",
        Code(touches=(Touch(HOLE, Access.DELETE), Touch(HOLE, Access.WRITE))),
    ),
    ("df.to_csv('out.csv'); fig.savefig(name); model.save()", written("out.csv")),
    (
        "import urllib.request as r; r.urlretrieve('https://example.org', '/usr/bin/x')",
        written("/usr/bin/x"),
    ),
    (f"print(open('{HOLE}/a').read())", read(f"{HOLE}/a")),
    ("import os; os.makedirs(name='a'); os.makedirs(); x.open('r'); x.open(y)", NOTHING),
    ("(root / 'a').unlink(); (a / b).unlink()", deleted(f"{HOLE}/a", HOLE)),
    ("import os; p = await q; os.remove(p); os.remove(Path('a').stem)", deleted(HOLE)),
    ("from pathlib import Path; print(Path('a').stem); open(Path('a').suffix)", read(HOLE)),
    # Shells and programs.
    ("import os; os.system('ls')", shell("ls")),
    ("from os import *; system('ls')", shell("ls")),
    ("import os as o; s = o.system; s('ls')", shell("ls")),
    ("import os; getattr(os, 'sys' + 'tem')('ls')", shell("ls")),
    ("import os; vars(os)['system']('ls'); os.__dict__['popen']('id')", shell("ls", "id")),
    ("import sys; sys.modules['os'].system('ls')", shell("ls")),
    ("import builtins; builtins.exec('import posix; posix.system(\"ls\")')", shell("ls")),
    ("import os\nclass A:\n    run = os.system\nA.run('ls')", shell(HOLE)),
    ("import os\nclass A: pass\nA.__getitem__ = os.system", shell(HOLE)),
    ("import os\n@os.system\ndef f(): pass", shell(HOLE)),
    (
        "import os\ntry:\n    from os import system as s\nexcept ImportError: s = None\ns('ls')",
        shell("ls"),
    ),
    ("import subprocess; subprocess.run('ls | wc', shell=True)", shell("ls | wc")),
    ("import subprocess; subprocess.run(['ls -l', 'x'], shell=True)", shell("ls -l")),
    ("import subprocess; subprocess.run(['git', 'push'], shell=False)", runs(("git", "push"))),
    ("import subprocess; subprocess.check_output(['git', 'status'])", runs(("git", "status"))),
    ("import subprocess as s; s.Popen('ls'); s.call([x, 'y'])", runs(("ls",), (HOLE, "y"))),
    ("import subprocess; subprocess.run(['git'] + args)", runs(("git", HOLE))),
    (
        "import subprocess; subprocess.run(args + ['x']); subprocess.run(['a'] + ['b'])",
        runs((HOLE, "x"), ("a", "b")),
    ),
    ("import subprocess; subprocess.run(cmd)", runs((HOLE,))),
    ("import subprocess; subprocess.run([])", runs((HOLE,))),
    ("import subprocess; subprocess.run('git push'.split())", runs(("git", "push"))),
    ("import subprocess; subprocess.run('git,push'.split(','))", runs(("git", "push"))),
    ("import shlex, subprocess; subprocess.run(shlex.split('a \"b c\"'))", runs(("a", "b c"))),
    ("import shlex, subprocess; subprocess.run(shlex.split('a \"b'))", runs((HOLE,))),
    (
        "import sys, subprocess; subprocess.run([sys.executable, '-m', 'pip'])",
        runs(("python3", "-m", "pip")),
    ),
    (
        "import subprocess\nfor c in [['a', 'b'], ['c']]: subprocess.run(c)",
        runs(("a", "b"), ("c",)),
    ),
    (
        "import subprocess; subprocess.run(['sh'], input='id')",
        Code(shell=("sh <<'END_OF_INPUT'\nid\nEND_OF_INPUT\n",), commands=(("sh",),)),
    ),
    ("import subprocess; subprocess.run(['cat'], input='id')", runs(("cat",))),
    (
        "import subprocess; subprocess.run('x', executable='/bin/rm')",
        runs(("x",), ("/bin/rm", HOLE)),
    ),
    ("import os; os.execvp('rm', ['rm', '-rf', '/'])", runs(("rm", "-rf", "/"))),
    ("import os; os.execv('/bin/ls', args)", runs(("/bin/ls", HOLE))),
    ("import os; os.execl('/bin/rm', 'rm', '-rf', '/')", runs(("/bin/rm", "-rf", "/"))),
    ("import os; os.spawnlp(os.P_WAIT, 'ls', 'ls', '-l')", runs(("ls", "-l"))),
    ("import pty; pty.spawn('/bin/sh'); pty.spawn(['a', 'b'])", runs(("/bin/sh",), ("a", "b"))),
    ("import asyncio; await asyncio.create_subprocess_exec('ls', '-l')", runs(("ls", "-l"))),
    ("import asyncio; asyncio.create_subprocess_exec('ls', *a)", runs(("ls", HOLE))),
    ("import sh; sh.git.push('origin'); sh.ls()", runs(("git", "push", "origin"), ("ls",))),
    ("import pip; pip.main(['install', 'x'])", runs(("pip", "install", "x"))),
    (
        "import runpy; runpy.run_path('a.py'); runpy.run_module('pip')",
        runs(("python3", "a.py"), ("python3", "-m", "pip")),
    ),
    (
        "import importlib.util as u; u.spec_from_file_location('a', 'b.py')",
        runs(("python3", "b.py")),
    ),
    # Code.
    ("exec(x)", found(UNKNOWN_CODE)),
    ("eval('1 +')", found(UNREADABLE)),
    ("exec('import os\\nos.system(\"ls\")')", shell("ls")),
    (
        "exec(open('setup.py').read())",
        Code(touches=(Touch("setup.py", Access.READ),), commands=(("python3", "setup.py"),)),
    ),
    (
        "from pathlib import Path; exec(compile(Path('a.py').read_text(), 'a', 'exec'))",
        Code(touches=(Touch("a.py", Access.READ),), commands=(("python3", "a.py"),)),
    ),
    (
        "import requests; exec(requests.get('https://example.org/x').text)",
        found((Effect.UNKNOWN, "downloads and runs other code")),
    ),
    (
        "from urllib.request import urlopen as u\nc = u('https://example.org').read()\nexec(c)",
        found((Effect.UNKNOWN, "downloads and runs other code")),
    ),
    ("import base64; exec(base64.b64decode('cHJpbnQoMSk='))", found(UNKNOWN_CODE)),
    ("list(map(eval, texts))", found(UNKNOWN_CODE)),
    ("__import__(x)", found((Effect.UNKNOWN, "imports a module that is only known at run time"))),
    ("import os; getattr(os, x)('ls'); getattr(os, 'metsys'[::-1])", found(HIDDEN)),
    ("import operator, os; operator.attrgetter('system')(os)", found(HIDDEN)),
    ("().__class__.__base__.__subclasses__()", found(INSIDE)),
    ("import pickle; pickle.load(f)", found(OBJECTS)),
    ("import yaml; yaml.load(f)", found(OBJECTS)),
    ("import torch; torch.load(f, weights_only=False)", found(OBJECTS)),
    (
        "import ctypes; ctypes.CDLL(None).system(b'ls')",
        Code(findings=((Effect.UNKNOWN, "calls native code"),), shell=("ls",)),
    ),
    ("def f(:", found(UNREADABLE)),
    (f"print({HOLE})", found(UNREADABLE)),
    ("'\ue000'", found(UNREADABLE)),
    ("'\ud800'", found(UNREADABLE)),
    ("(" * 90 + ")" * 90 + ".a" * 200, found(TOO_DEEP)),
    ("a" + ".a" * 20000, found(TOO_LONG)),
    ("not " * 16000 + "1", found(TOO_DEEP)),
    # The network.
    ("import requests; requests.post('https://example.org', data=x)", found(SENDS)),
    ("import requests as r; s = r.Session(); s.put(url)", found(SENDS)),
    ("import requests; requests.get(url, json=x)", found(SENDS)),
    ("import requests; requests.request('DELETE', url)", found(SENDS)),
    ("import aiohttp\nasync with aiohttp.ClientSession() as s: await s.post(u)", found(SENDS)),
    ("import urllib.request as r; r.urlopen('https://example.org', data=b'x')", found(SENDS)),
    ("import urllib.request as r; r.urlopen('https://example.org', None, 5)", NOTHING),
    ("import urllib.request as r; r.Request('https://example.org', method='PUT')", found(SENDS)),
    ("import socket; s = socket.socket(); s.connect(('example.org', 80))", found(CONNECTS)),
    ("import smtplib; smtplib.SMTP('example.org')", found(CONNECTS)),
    ("from google.cloud import storage; storage.Client()", found(CONNECTS)),
    ("import webbrowser; webbrowser.open('https://example.org')", found(CONNECTS)),
    # Processes, users, secrets.
    ("import os; os.kill(1, 9)", found(ENDS)),
    ("import os; os.setuid(0)", found((Effect.PRIVILEGED, "switches to another user"))),
    ("import os; print(os.environ)", found(ENVIRONMENT)),
    ("import os, json; print(json.dumps(dict(os.environ)))", found(ENVIRONMENT)),
    ("import os; print(f'{os.environ}')", found(ENVIRONMENT)),
    ("import os\nfor k, v in os.environ.items(): print(k, v)", found(ENVIRONMENT)),
    (
        "import os; os.getenv('API_KEY')",
        found((Effect.SECRETS, "reads API_KEY from the environment")),
    ),
    (
        "import os; os.environ['GITHUB_TOKEN']",
        found((Effect.SECRETS, "reads GITHUB_TOKEN from the environment")),
    ),
    ("import os; os.getenv('KEYBOARD'); os.getenv('KEY'); thing['API_KEY']", NOTHING),
]


@pytest.mark.parametrize("source", HARMLESS)
def test_harmless_code_has_no_findings(source: str) -> None:
    code = read_python(source)

    assert code.findings == ()
    assert code.shell == ()
    assert code.commands == ()
    assert all(touch.access is Access.READ for touch in code.touches)


@pytest.mark.parametrize(("source", "expected"), EFFECTS)
def test_the_effects_of_code_are_found(source: str, expected: Code) -> None:
    assert read_python(source) == expected


@pytest.mark.parametrize(("levels", "expected"), [(3, shell("ls")), (6, found(TOO_DEEP))])
def test_nested_sources_are_analysed_up_to_a_limit(levels: int, expected: Code) -> None:
    source = "import os; os.system('ls')"
    for _ in range(levels):
        source = f"exec({source!r})"

    assert read_python(source) == expected


def test_the_same_source_is_analysed_once() -> None:
    assert read_python("exec('f()');" * 50) == NOTHING


def test_too_many_sources_are_not_analysed() -> None:
    text = "print(1);" * 400
    source = f"t = {text!r}\n" + "\n".join(f"exec(t + '{n}')" for n in range(99))

    assert read_python(source) == found(TOO_LONG)


def test_names_with_too_many_values_are_unknown() -> None:
    source = "import os\nfor f in [" + ",".join(f"'{n}'" for n in range(40)) + "]: os.remove(f)"

    assert read_python(source) == deleted(HOLE)


MANY: Final = (Effect.UNKNOWN, "cannot be analysed: a name has too many possible values")


def test_no_value_of_a_name_is_missed() -> None:
    texts = "\n".join(f"x = 'a{n}'" for n in range(40))
    modules = "\n".join(f"import a{n} as x" for n in range(40))
    stars = "\n".join(f"from a{n} import *" for n in range(40))

    assert read_python(f"import os\n{texts}\nx = os\nx.system('a')") == shell("a")
    assert MANY in read_python(f"import os\n{modules}\nx = os\nx.system('a')").findings
    assert MANY in read_python(f"{stars}\nfrom os import *\nsystem('a')").findings
    assert read_python(modules) == NOTHING


@pytest.mark.parametrize("source", ["a;" * 12_000, "a\n" * 5_000, "[" + "a," * 9_000 + "]"])
def test_code_that_is_too_long_is_not_analysed(source: str) -> None:
    assert read_python(source) == found(TOO_LONG)


def test_a_shell_method_of_an_unknown_object_is_found() -> None:
    assert read_python("import os; a = [[[os]]]; a[0][0][0].system('a')") == shell("a")
    assert read_python("import platform; platform.system()") == NOTHING


def test_texts_that_grow_too_long_are_unknown() -> None:
    source = "import os\na0 = 'xxxxxxxx'\n"
    source += "\n".join(f"a{n + 1} = a{n} + a{n}" for n in range(40))

    assert read_python(f"{source}\nos.remove(a40)") == deleted(HOLE)


def test_only_the_beginning_of_a_long_list_is_known() -> None:
    source = f"import subprocess\nsubprocess.run({['a'] * 99})"

    assert read_python(source) == runs((*["a"] * 64, HOLE))


def test_deeply_nested_lists_are_unknown() -> None:
    source = "import subprocess\na = ['x', [y]]\nb = [a, a]\nfor c in b: subprocess.run(c)"

    assert read_python(source) == runs((HOLE,))


def test_templates_beyond_a_limit_are_not_parsed() -> None:
    source = f"t = {'a' * 4000!r}\n" + "\n".join(f"open('{n}' + t % x)" for n in range(80))

    assert Touch(HOLE, Access.READ) not in read_python(source.partition("\n")[0]).touches
    assert Touch(f"79{HOLE}", Access.READ) in read_python(source).touches


@given(st.sampled_from([source for source, _ in EFFECTS if source.isascii()]), st.text("ab'(/ "))
def test_a_comment_or_an_unused_string_does_not_change_the_result(source: str, words: str) -> None:
    if UNREADABLE not in read_python(source).findings and ".a.a" not in source:
        assert read_python(f"{source}\n# {words}") == read_python(source)
        assert read_python(f"{words!r}\n{source}") == read_python(source)
