"""What scripts in other languages would do, by their words."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.shell.code.script_code import read_script
from safetyd.core.shell.code.scripts.script_syntax import SYNTAXES
from safetyd.core.shell.reading import HOLE, Access, Code, Effect, Touch
from tests.cost import ratio

UNKNOWN_CODE: Final = (Effect.UNKNOWN, "runs code that is not known before it runs")
HIDDEN: Final = (Effect.UNKNOWN, "runs code that its text does not show")
HIDDEN_NAME: Final = (Effect.UNKNOWN, "calls a function whose name is not known before it runs")
PROGRAMS: Final = (Effect.UNKNOWN, "runs programs that its text does not name")
SENDS: Final = (Effect.LEAVES, "sends data to another machine")
CONNECTS: Final = (Effect.LEAVES, "opens a connection to another machine")
PORT: Final = (Effect.LEAVES, "opens a port")
ENDS: Final = (Effect.IRREVERSIBLE, "ends processes")
RIGHTS: Final = (Effect.IRREVERSIBLE, "changes who may use a file")
OBJECTS: Final = (Effect.UNKNOWN, "loads stored objects, which may run anything")
ENVIRONMENT: Final = (Effect.SECRETS, "shows every variable of the environment")
TOKEN: Final = (Effect.SECRETS, "reads API_TOKEN from the environment")
INSTALLS: Final = (Effect.INSTALLS, "installs packages")
TOO_LONG: Final = (Effect.UNKNOWN, "is too long or nested too deeply to be read")


def found(*findings: tuple[Effect, str]) -> Code:
    return Code(findings=findings)


def unreadable(language: str) -> Code:
    return found((Effect.UNKNOWN, f"is not readable as {language}"))


def read(*paths: str) -> Code:
    return Code(touches=tuple(Touch(path, Access.READ) for path in paths))


def written(*paths: str) -> Code:
    return Code(touches=tuple(Touch(path, Access.WRITE) for path in paths))


def deleted(*paths: str) -> Code:
    return Code(touches=tuple(Touch(path, Access.DELETE) for path in paths))


def shell(*texts: str) -> Code:
    return Code(shell=texts)


def runs(*commands: tuple[str, ...]) -> Code:
    return Code(commands=commands)


HARMLESS: Final = [
    ("javascript", "console.log(require('./package.json').version)"),
    ("javascript", "console.log([1, 2].map(x => x * 2).join(', '))"),
    ("javascript", "console.log(process.version, process.env.NODE_ENV, process.env['HOME'])"),
    ("javascript", "const fs = require('fs'); console.log(fs.readFileSync('a.txt', 'utf8'))"),
    ("javascript", "/a[/\"]\\/b/.exec(s); x = 1 / 2 / 3; // execSync('rm')"),
    ("javascript", "console.log(`a ${b + `c ${d}`} ${({e: 1}).e} $ {}`); /* eval(x) */"),
    ("javascript", "fetch('https://a.b/c').then(r => r.json()).then(console.log)"),
    ("javascript", "fetch('https://a.b/c', {method: 'GET', headers: {a: 'b'}})"),
    ("javascript", "fetch('http://localhost:3000/a', {method: 'POST', body: x})"),
    ("javascript", "class A { constructor() { this.a = [1]; } } this.a[0](1); b[i]; b['c']"),
    ("javascript", "setTimeout(() => console.log(1), 10); eval('1 + 1'); f({eval_: 1})"),
    ("javascript", "import x from 'lodash'; const y = require('lodash'); import('./a.json')"),
    ("javascript", "const {exec} = require('child_process'); const a = JSON.parse('{}')"),
    ("javascript", "return /a/; a = (b) / c; d = {}"),
    ("perl", "print if /foo/; s/a/b/g; tr/a-z/A-Z/; y/a/b/; s{a}{b}; s(a) (b)"),
    ("perl", "my %h = (system => 1, s => 2); print $h{system}, $#x, $ENV{HOME}"),
    ("perl", "print $1 while /\\bfoo\\((.*?)\\)/gs; print m{a/b}x, qr/c/i"),
    ("perl", "use JSON; require JSON::PP; require 5.10; eval { f() }; do { 1 } while 0"),
    ("perl", "open(my $f, '<', 'a') or die; print <$f>; close $f; $x = $y / 2; # system 'a'"),
    ("perl", "print 'it\\'s \\n', q(a (b) c), qw(a b), \"x$y->[0] @z \\x41 \\x{42}\""),
    ("perl", "s/(\\d+)/$1 + 1/e; print <<E . <<'F';\na $b\nE\nc\nF\nprint 1"),
    ("perl", "1;\n=pod\n\nsystem('a')\n\n=cut\nprint 2;\n=head1\neval"),
    ("ruby", "puts 1 + 1; puts [1, 2].map { |x| x * 2 }.join(', ')"),
    ("ruby", "require 'json'; puts JSON.parse(File.read('a.json'))['x']"),
    (
        "ruby",
        "puts $_ if /x/ =~ $_; puts a / b; puts %w(a b), %q(c (d)), %Q[e #{f}], 5 % 3, %r{a}i",
    ),
    ("ruby", "puts ENV['HOME'], ENV.fetch('USER'), \"a #{h[\"b\"]}\" # system('a')"),
    ("ruby", "puts <<~E\n  a #{b}\nE\n=begin\nsystem 'a'\n=end\nputs x.send(:size)"),
    ("ruby", "x = [1]; x << E\nopen('a.txt').read"),
    ("php", "echo PHP_VERSION; echo json_encode(['a' => 1]); $db->exec('select 1');"),
    ("php", "<?php echo \"a $b[0] {$c->d} ${e}\"; // system('a')\n# eval\n/* exec */ ?>"),
    ("php", "echo file_get_contents('https://a.b'), file_get_contents('php://stdin');"),
    ("php", "echo implode(array_map(fn($x) => $x, [1])); echo $_SERVER['argv'], getenv('HOME');"),
    ("php", "echo array_map('strtoupper', $a); usort($a, $b); echo <<<E\na\nE;\n"),
    ("lua", "print(1 .. 'a'); for _, v in ipairs({1}) do print(v) end -- os.execute('a')"),
    ("lua", "--[[ os.execute('a') ]] print([[a]], [==[b]]c]==], os.getenv('HOME'), t[1])"),
    ("lua", "for line in io.lines('a.txt') do print(line:upper()) end; io.open('b')"),
    ("r", "x <- c(1, 2); print(summary(x)); system.file('a') # system('a')"),
    ("r", "df <- read.csv('a.csv'); print(head(df)); sapply(x, mean); Sys.getenv('HOME')"),
    ("julia", "println(1 + 1); A' * B'; c = 'x'; println(\"a $b $(c + 1)\") # rm(x)"),
    ("julia", '#= rm(x) =# println("""a " b""", ENV["HOME"]); open("a.txt")'),
]

EFFECTS: Final = [
    ("javascript", "require('child_process').execSync('git status')", shell("git status")),
    ("javascript", "require('node:child_process').exec(`ls ${x}`)", shell(f"ls {HOLE}")),
    (
        "javascript",
        "import {spawn} from 'child_process'; spawn('ls', ['-l', a], {cwd: 'b'})",
        runs(("ls", "-l", HOLE)),
    ),
    ("javascript", "const c = require('child_process'); c.spawn('a', {})", runs(("a",))),
    ("javascript", "cp.spawnSync('ls', ['a'], {shell: true})", shell("ls a")),
    ("javascript", "cp.execFileSync(x)", runs((HOLE,))),
    ("javascript", "require('child_process').fork('./a')", runs(("node", "./a.js"))),
    ("javascript", "const e = require('child_process').execSync; e('ls')", shell(HOLE)),
    ("javascript", "require('child_' + 'process')['ex' + 'ec']('ls')", shell("ls")),
    ("javascript", "const c = require('child_process'); c[x]", found(HIDDEN_NAME)),
    ("javascript", "const f = require; f('child_process').exec('ls')",
     Code(findings=(UNKNOWN_CODE,), shell=("ls",))),
    ("javascript", "Object.values(require('child_process'))[0]('ls')", found(HIDDEN_NAME)),
    ("javascript", "const {env} = process; console.log(env)", found(ENVIRONMENT)),
    ("javascript", "require('https').get('https://a.b'); typeof process", found()),
    ("javascript", "x = process()", found()),
    ("javascript", "a[b](c)", found(HIDDEN_NAME)),
    ("javascript", "a['con' + 'cat'](c)", found(HIDDEN_NAME)),
    ("javascript", "x['mainModule']", found(HIDDEN_NAME)),
    ("javascript", "x['process']('a')", found(PROGRAMS)),
    ("javascript", "[].constructor.constructor('return 1')()", found(HIDDEN)),
    ("javascript", "f().constructor('return 1')()", found(HIDDEN)),
    ("javascript", "require(x); import('data:text/javascript,1')", found(UNKNOWN_CODE)),
    ("javascript", "require('./a'); require('../b.cjs')",
     runs(("node", "./a.js"), ("node", "../b.cjs"))),
    ("javascript", "require('vm').runInThisContext('1')", found(HIDDEN)),
    ("javascript", "require('execa')('ls')", found(PROGRAMS)),
    ("javascript", "require('net').connect(1)", found(CONNECTS)),
    ("javascript", "eval(x); new Function('return 1'); new Function('a', b)", found(UNKNOWN_CODE)),
    ("javascript", "(0, eval)('1'); x.then(eval)", found(UNKNOWN_CODE)),
    ("javascript", "eval(\"require('child_process').exec('ls')\")", shell("ls")),
    ("javascript", "setTimeout('f(' + x, 1)", found(UNKNOWN_CODE)),
    ("javascript", "console.log(process.env)", found(ENVIRONMENT)),
    ("javascript", "process.env[x]; process.env.API_TOKEN", found(ENVIRONMENT, TOKEN)),
    ("javascript", "fetch('https://a.b', {method: 'POST', body: x})", found(SENDS)),
    ("javascript", "fetch('https://a.b', x)", found(SENDS)),
    ("javascript", "https.request({host: 'a', method: 'PUT'})", found(SENDS)),
    ("javascript", "http.createServer(f).listen(80)", found(PORT)),
    ("javascript", "fs.rmSync('dist', {recursive: true})", deleted("dist")),
    ("javascript", "const fs = require('fs'); fs.unlink(x, f)", deleted(HOLE)),
    ("javascript", "const f = 'a.json'; fs.writeFileSync(f, JSON.stringify(x))", written("a.json")),
    ("javascript", "let f = 'a'; f = b; fs.writeFileSync(f, x)", written(HOLE)),
    ("javascript", "let f = 'a'; f += b; fs.writeFileSync(f, x)", written(HOLE)),
    ("javascript", "let f = 'a'; for (f of b) fs.writeFileSync(f, x)", written(HOLE)),
    ("javascript", "fs.renameSync('a', '/b'); fs.copyFileSync('c', 'd')", written("a", "/b", "d")),
    ("javascript", "fs.openSync('a', 'w'); fs.openSync('/dev/null', 'w')", written("a")),
    ("javascript", "const fs = require('fs'); fs.chmod('a', 0o777)", found(RIGHTS)),
    ("javascript", "process.kill(1)", found(ENDS)),
    ("javascript", "await Bun.$`ls ${x}`; await $`pwd`", shell(f"ls {HOLE}", "pwd")),
    ("javascript", "Bun.spawn(['ls', '-l'])", runs(("ls", "-l"))),
    ("javascript", "new Deno.Command('ls', {args: ['-l']})", runs(("ls", "-l"))),
    ("javascript", "new Deno.Command('ls', {args})", runs(("ls", HOLE))),
    ("javascript", "new Deno.Command('ls', {cwd: '/'})", runs(("ls",))),
    ("javascript", "'\\x72\\u006d \\u{2d}f \\ud800\\0' + cp.execSync('\\x72m')", shell("rm")),
    ("javascript", "'a", unreadable("JavaScript")),
    ("javascript", "f(a]", unreadable("JavaScript")),
    ("javascript", "f(a", unreadable("JavaScript")),
    ("javascript", "/* a", unreadable("JavaScript")),
    ("javascript", "a = /b\n/", unreadable("JavaScript")),
    ("javascript", "`${a", unreadable("JavaScript")),
    ("javascript", "'a\\", unreadable("JavaScript")),
    ("perl", "system('ls -l'); exec 'pwd'", shell("ls -l", "pwd")),
    ("perl", "system 'rm', '-rf', $x if $y", runs(("rm", "-rf", HOLE))),
    ("perl", "print `ls $x`, qx(pwd), readpipe('id'), \"@{[ system('a') ]}\"",
     shell(f"ls {HOLE}", "pwd", "id", "a")),
    ("perl", "s/a/`ls`/e; s/a/b/ee; s/a/@{[f()]}/; /(?{ f() })/",
     Code(findings=(HIDDEN,), shell=("ls",))),
    ("perl", "unlink 'a', $b; unlink", deleted("a", HOLE)),
    ("perl", "my $f = 'a'; unlink $f; rmtree('b')", deleted("a", "b")),
    ("perl", "open(F, '>a'); open(F, '>>', 'b'); open F, '+<c'", written("a", "b", "c")),
    ("perl", "open(F, 'ls|'); open(F, '-|', 'id'); open F, '|-', 'a', 'b'",
     Code(shell=("ls", "id"), commands=(("a", "b"),))),
    ("perl", "open F, $x", found((Effect.UNKNOWN, "opens a file or a program that is not known"))),
    ("perl", "open F, '< a.txt'", read("a.txt")),
    ("perl", "eval $x; do 'a.pl'; require $y",
     Code(findings=(UNKNOWN_CODE,), commands=(("perl", "a.pl"),))),
    ("perl", "eval 'system q(ls)'; CORE::system('id')", shell("ls", "id")),
    ("perl", "print %ENV; print $ENV{API_TOKEN}; $ENV{$x}", found(ENVIRONMENT, TOKEN)),
    ("perl", "use IO::Socket::INET; kill 9, 1; chmod 0777, 'a'; use IPC::Open3",
     found(CONNECTS, ENDS, RIGHTS, PROGRAMS)),
    ("perl", "q(a", unreadable("Perl")),
    ("perl", "print <<E;\na", unreadable("Perl")),
    ("ruby", "system('ls'); `pwd`; %x(id #{a}); exec 'ls', '-l'",
     Code(shell=("ls", "pwd", f"id {HOLE}"), commands=(("ls", "-l"),))),
    ("ruby", "system({'A' => 'b'}, 'ls', exception: true, :err => x)", shell("ls")),
    ("ruby", "IO.popen(['ls', '-l']); Open3.capture3('id'); system; Kernel.spawn('a')",
     Code(shell=("id", HOLE, "a"), commands=(("ls", "-l"),))),
    ("ruby", 'puts "#{`ls`}"; puts <<~`E`\nid\nE\n', shell("id\n", "ls")),
    ("ruby", "open('|ls'); eval x; load 'a.rb'; require './b'; require_relative 'lib/c'",
     Code(findings=(UNKNOWN_CODE,), shell=("ls",),
          commands=(("ruby", "a.rb"), ("ruby", "./b.rb"), ("ruby", "lib/c.rb")))),
    ("ruby", "FileUtils.rm_rf(['a', b], secure: true); File.delete 'c'", deleted("a", HOLE, "c")),
    ("ruby", "File.write('a', b); File.open('c', 'w') { |f| f.puts 1 }", written("a", "c")),
    ("ruby", "x.instance_eval y; x.send(y); x.send('sys' + 'tem', 'a')",
     Code(findings=(HIDDEN, HIDDEN_NAME), shell=(HOLE,))),
    ("ruby", "puts ENV; puts ENV.to_h; ENV['API_TOKEN']; Marshal.load x; ENV.fetch('API_TOKEN')",
     found(ENVIRONMENT, TOKEN, OBJECTS)),
    ("ruby", "/#{system 'a'}/; TCPSocket.new('a', 1)", found(HIDDEN, CONNECTS)),
    ("php", "system('ls'); echo `id`; shell_exec($x); \\exec('a');", shell("ls", "id", HOLE, "a")),
    ("php", "$f = 'system'; $f('ls'); 'exec'('a'); ('ex'.'ec')('b'); $a[0]('c');",
     found(HIDDEN_NAME)),
    ("php", "call_user_func($x, 1); array_map('system', $a);",
     Code(findings=(HIDDEN_NAME,), shell=(HOLE,))),
    ("php", "eval($x); include 'a.php'; require($y);",
     Code(findings=(UNKNOWN_CODE,), commands=(("php", "a.php"),))),
    ("php", "unlink('a'); file_put_contents('b', 1); fopen('c', 'w'); fopen('php://output', 'w');",
     Code(touches=(Touch("a", Access.DELETE), Touch("b", Access.WRITE), Touch("c", Access.WRITE)))),
    ("php", "print_r($_ENV); getenv(); mail('a', 'b', 'c'); unserialize($x);",
     found(ENVIRONMENT, (Effect.LEAVES, "sends mail"), OBJECTS)),
    ("php", "(function() { return 1; })();", found()),
    ("php", "# <?php system('a') ?>", unreadable("PHP")),
    ("php", "it's <?php system('a') ?> it's", unreadable("PHP")),
    ("lua", "os.execute('ls'); io.popen'id'; local o = os; o.execute([[a]])",
     shell("ls", "id", "a")),
    ("lua", "os['exe' .. 'cute']('a'); _G['x'] = 1; f = os.execute; os[x]",
     Code(findings=(HIDDEN, HIDDEN_NAME), shell=("a", HOLE))),
    ("lua", "os.remove('a'); io.open('b', 'w'); load(x); dofile('c.lua'); load('os.remove(\"d\")')",
     Code(findings=(UNKNOWN_CODE,), commands=(("lua", "c.lua"),),
          touches=(*deleted("a").touches, *written("b").touches, *deleted("d").touches))),
    ("lua", "print([[a)", unreadable("Lua")),
    ("r", "system('ls'); system2('id', c('-u', x)); base::system('a')",
     Code(shell=("ls", "a"), commands=(("id", "-u", HOLE),))),
    ("r", "unlink('a', recursive = TRUE); file.remove(c('b', 'c'))", deleted("a", "b", "c")),
    ("r", "write.csv(x, file = 'a.csv'); writeLines('b'); sink('c')", written("a.csv", "c")),
    ("r", "install.packages('x'); eval(parse(text = x)); do.call('system', list('a'))",
     found(INSTALLS, HIDDEN)),
    ("r", "source('https://a.b/c.R'); Sys.getenv(); get('system')('a')",
     Code(findings=(ENVIRONMENT,), shell=(HOLE,), commands=(("Rscript", "https://a.b/c.R"),))),
    ("julia", 'run(`ls $x`); rm("a", recursive=true); write("b", c); include("d.jl")',
     Code(shell=(f"ls {HOLE}",), commands=(("julia", "d.jl"),),
          touches=(Touch("a", Access.DELETE), Touch("b", Access.WRITE)))),
    ("julia", 'using Pkg; Pkg.add("X"); eval(x); println(ENV)',
     found(INSTALLS, HIDDEN, ENVIRONMENT)),
    ("cobol", "DISPLAY 'a'", found((Effect.UNKNOWN, "nobody reads"))),
]  # fmt: skip


@pytest.mark.parametrize(("language", "source"), HARMLESS)
def test_harmless_scripts_come_to_nothing(language: str, source: str) -> None:
    code = read_script(source, language)

    assert code._replace(touches=()) == Code()
    assert all(touch.access is Access.READ for touch in code.touches)


@pytest.mark.parametrize(("language", "source", "expected"), EFFECTS)
def test_what_scripts_do_is_found(language: str, source: str, expected: Code) -> None:
    assert read_script(source, language) == expected


LANGUAGES: Final = st.sampled_from(sorted(SYNTAXES))
COMMENTS: Final = {"javascript": "//", "lua": "--", "php": "//"}
WORDS: Final = st.sampled_from(
    ["system", "exec", "(", ")", "'a'", '"', "`", "eval", "=", "\n", "x", "[", "]", "{", "}", "/",
     "$", "#{", "${", "@{", "$(", "+", ",", "q(", "s/", "%x(", "<<E", "\nE\n", "ENV", "process.env",
     "require", "fs.", "rmSync", "open", " ", "=>", ":", "\\", "[[", "]]", "<?", "?>", "_G", "c("]
)  # fmt: skip


def test_sources_in_sources_are_read_to_a_limit() -> None:
    source = "1"
    for _ in range(7):
        source = f"eval({source!r})"

    assert read_script(source, "javascript") == found(TOO_LONG)


@pytest.mark.parametrize(
    "source", ["a;" * 20_000, "a" * 200_000, "`${a}`;" * 700, "`${" * 20 + "a" + "}`" * 20]
)
def test_what_is_too_long_or_too_deep_is_not_read(source: str) -> None:
    assert read_script(source, "javascript") == found(TOO_LONG)


def test_texts_of_too_many_parts_are_unknown() -> None:
    source = f"cp.execSync({' + '.join(['x'] * 300)})"

    assert read_script(source, "javascript") == shell(HOLE)


@given(LANGUAGES, st.text(max_size=200))
def test_no_text_makes_it_raise_and_twice_is_the_same(language: str, source: str) -> None:
    assert read_script(source, language) == read_script(source, language)


@given(LANGUAGES, st.lists(WORDS, max_size=30).map("".join))
def test_no_words_make_it_raise(language: str, source: str) -> None:
    assert isinstance(read_script(source, language), Code)


@given(st.sampled_from([each for each in EFFECTS if each[0] in SYNTAXES]), st.text("ab'(/ "))
def test_a_comment_changes_nothing(case: tuple[str, str, Code], words: str) -> None:
    language, source, expected = case
    readable = not any(why.startswith("is not") for _, why in expected.findings)
    if readable and not source.endswith("\n"):
        comment = COMMENTS.get(language, "#")
        assert read_script(f"{source}\n{comment} {words}\n", language) == expected


@pytest.mark.parametrize("unit", ["f('a', b)(c);\n", "`${a}`;", "x = x + 'a'\n", "a[b]", "f(("])
def test_time_grows_as_the_text(unit: str) -> None:
    work, less = unit * 800, unit * 200
    assert (
        ratio(lambda: read_script(work, "javascript"), lambda: read_script(less, "javascript")) < 10
    )
