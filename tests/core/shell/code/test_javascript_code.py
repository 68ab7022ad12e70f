"""Analysis of JavaScript."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.shell.code.javascript_code import read_javascript
from safetyd.core.shell.reading import HOLE, Access, Code, Effect
from tests.core.shell.code.expected import deleted, found, runs, shell, written

UNKNOWN_CODE: Final = (Effect.UNKNOWN, "evaluates text that is only known at run time")
HIDDEN: Final = (Effect.UNKNOWN, "loads or evaluates other code")
HIDDEN_NAME: Final = (Effect.UNKNOWN, "calls a function whose name is only known at run time")
PROGRAMS: Final = (Effect.UNKNOWN, "runs unknown programs")
SENDS: Final = (Effect.LEAVES, "sends data to another machine")
CONNECTS: Final = (Effect.LEAVES, "opens a connection to another machine")
PORT: Final = (Effect.LEAVES, "opens a port")
ENDS: Final = (Effect.IRREVERSIBLE, "kills processes")
RIGHTS: Final = (Effect.IRREVERSIBLE, "changes file permissions")
ENVIRONMENT: Final = (Effect.SECRETS, "prints all environment variables")
TOKEN: Final = (Effect.SECRETS, "reads API_TOKEN from the environment")
TOO_LONG: Final = (Effect.UNKNOWN, "cannot be analysed: it is too long or nested too deeply")


UNREADABLE: Final = found((Effect.UNKNOWN, "cannot be analysed: it is not valid JavaScript"))

HARMLESS: Final = [
    "console.log(require('./package.json').version)",
    "console.log([1, 2].map(x => x * 2).join(', '))",
    "console.log(process.version, process.env.NODE_ENV, process.env['HOME'])",
    "const fs = require('fs'); console.log(fs.readFileSync('a.txt', 'utf8'))",
    "/a[/\"]\\/b/.exec(s); x = 1 / 2 / 3; // execSync('rm')",
    "console.log(`a ${b + `c ${d}`} ${({e: 1}).e} $ {}`); /* eval(x) */",
    "fetch('https://a.b/c').then(r => r.json()).then(console.log)",
    "fetch('https://a.b/c', {method: 'GET', headers: {a: 'b'}})",
    "fetch('http://localhost:3000/a', {method: 'POST', body: x})",
    "class A { constructor() { this.a = [1]; } } this.a[0](1); b[i]; b['c']",
    "setTimeout(() => console.log(1), 10); eval('1 + 1'); f({eval_: 1})",
    "import x from 'lodash'; const y = require('lodash'); import('./a.json')",
    "const {exec} = require('child_process'); const a = JSON.parse('{}')",
    "return /a/; a = (b) / c; d = {}",
]

EFFECTS: Final = [
    ("require('child_process').execSync('git status')", shell("git status")),
    ("require('node:child_process').exec(`ls ${x}`)", shell(f"ls {HOLE}")),
    ("import {spawn} from 'child_process'; spawn('ls', ['-l', a], {cwd: 'b'})",
        runs(("ls", "-l", HOLE)),
    ),
    ("const c = require('child_process'); c.spawn('a', {})", runs(("a",))),
    ("cp.spawnSync('ls', ['a'], {shell: true})", shell("ls a")),
    ("x /cp.execSync('ls')/ 1", shell("ls")),
    ("f('a'); let g = 'b'; g &&= c; fs.writeFileSync(g, x)", written(HOLE)),
    ("cp.execSync(x = 'ls')", shell("ls")),
    ("require('child_process').fork(x)", found(UNKNOWN_CODE)),
    ("Deno.env.get('API_TOKEN'); Deno.env.get(x)", found(TOKEN, ENVIRONMENT)),
    ("fs.copyFileSync('a')", found()),
    ("cp.execFileSync(x)", runs((HOLE,))),
    ("require('child_process').fork('./a')", runs(("node", "./a.js"))),
    ("const e = require('child_process').execSync; e('ls')", shell(HOLE)),
    ("require('child_' + 'process')['ex' + 'ec']('ls')", shell("ls")),
    ("const c = require('child_process'); c[x]", found(HIDDEN_NAME)),
    ("const f = require; f('child_process').exec('ls')",
     Code(findings=(UNKNOWN_CODE,), shell=("ls",))),
    ("Object.values(require('child_process'))[0]('ls')", found(HIDDEN_NAME)),
    ("const {env} = process; console.log(env)", found(ENVIRONMENT)),
    ("require('https').get('https://a.b'); typeof process", found()),
    ("x = process()", found()),
    ("a[b](c)", found(HIDDEN_NAME)),
    ("a['con' + 'cat'](c)", found(HIDDEN_NAME)),
    ("x['mainModule']", found(HIDDEN_NAME)),
    ("x['process']('a')", found(PROGRAMS)),
    ("[].constructor.constructor('return 1')()", found(HIDDEN)),
    ("f().constructor('return 1')()", found(HIDDEN)),
    ("require(x); import('data:text/javascript,1')", found(UNKNOWN_CODE)),
    ("require('./a'); require('../b.cjs')",
     runs(("node", "./a.js"), ("node", "../b.cjs"))),
    ("require('vm').runInThisContext('1')", found(HIDDEN)),
    ("require('execa')('ls')", found(PROGRAMS)),
    ("require('net').connect(1)", found(CONNECTS)),
    ("eval(x); new Function('return 1'); new Function('a', b)", found(UNKNOWN_CODE)),
    ("(0, eval)('1'); x.then(eval)", found(UNKNOWN_CODE)),
    ("eval(\"require('child_process').exec('ls')\")", shell("ls")),
    ("setTimeout('f(' + x, 1)", found(UNKNOWN_CODE)),
    ("console.log(process.env)", found(ENVIRONMENT)),
    ("process.env[x]; process.env.API_TOKEN", found(ENVIRONMENT, TOKEN)),
    ("fetch('https://a.b', {method: 'POST', body: x})", found(SENDS)),
    ("fetch('https://a.b', x)", found(SENDS)),
    ("https.request({host: 'a', method: 'PUT'})", found(SENDS)),
    ("http.createServer(f).listen(80)", found(PORT)),
    ("fs.rmSync('dist', {recursive: true})", deleted("dist")),
    ("const fs = require('fs'); fs.unlink(x, f)", deleted(HOLE)),
    ("const f = 'a.json'; fs.writeFileSync(f, JSON.stringify(x))", written("a.json")),
    ("let f = 'a'; f = b; fs.writeFileSync(f, x)", written(HOLE)),
    ("let f = 'a'; f += b; fs.writeFileSync(f, x)", written(HOLE)),
    ("let f = 'a'; for (f of b) fs.writeFileSync(f, x)", written(HOLE)),
    ("fs.renameSync('a', '/b'); fs.copyFileSync('c', 'd')", written("a", "/b", "d")),
    ("fs.openSync('a', 'w')", written("a")),
    ("fetch('http://localhost.a.b', {method: 'POST'})", found(SENDS)),
    ("const fs = require('fs'); fs.chmod('a', 0o777)", found(RIGHTS)),
    ("process.kill(1)", found(ENDS)),
    ("await Bun.$`ls ${x}`; await $`pwd`", shell(f"ls {HOLE}", "pwd")),
    ("Bun.spawn(['ls', '-l'])", runs(("ls", "-l"))),
    ("new Deno.Command('ls', {args: ['-l']})", runs(("ls", "-l"))),
    ("new Deno.Command('ls', {args})", runs(("ls", HOLE))),
    ("new Deno.Command('ls', {cwd: '/'})", runs(("ls",))),
    ("'\\x72\\u006d \\u{2d}f \\ud800\\0' + cp.execSync('\\x72m')", shell("rm")),
    ("'a", UNREADABLE),
    ("f(a]", UNREADABLE),
    ("f(a", UNREADABLE),
    ("/* a", UNREADABLE),
    ("a = /b\n/", UNREADABLE),
    ("`${a", UNREADABLE),
    ("'a\\", UNREADABLE),
]  # fmt: skip


@pytest.mark.parametrize("source", HARMLESS)
def test_harmless_code_only_reads_files(source: str) -> None:
    code = read_javascript(source)

    assert code._replace(touches=()) == Code()
    assert all(touch.access is Access.READ for touch in code.touches)


@pytest.mark.parametrize(("source", "expected"), EFFECTS)
def test_effects_of_code_are_found(source: str, expected: Code) -> None:
    assert read_javascript(source) == expected


def nested(source: str, times: int) -> str:
    return nested(f"eval({source!r})", times - 1) if times else source


@pytest.mark.parametrize(
    "source",
    ["a;" * 20_000, "a" * 200_000, "`${a}`;" * 700, "`${" * 20 + "a" + "}`" * 20, nested("1", 7)],
)
def test_code_that_is_too_long_or_too_deeply_nested_is_not_analysed(source: str) -> None:
    assert read_javascript(source) == found(TOO_LONG)


def test_a_text_with_too_many_parts_is_unknown() -> None:
    source = f"cp.execSync({' + '.join(['x'] * 300)})"

    assert read_javascript(source) == shell(HOLE)


@given(st.sampled_from(EFFECTS), st.text("ab'(/ "))
def test_a_comment_does_not_change_the_result(case: tuple[str, Code], words: str) -> None:
    source, expected = case
    if expected != UNREADABLE:
        assert read_javascript(f"{source}\n// {words}\n") == expected
