"""The manual page, the completions, and the parser that they are made from."""

import argparse
import re
import shutil
from pathlib import Path

import pytest

from tests.support.programs import run_program
from tools.install_files import write_install_files
from tools.manual.command_tree import UnsafeTextError, command_tree, each_command, prepare
from tools.manual.documents import COMPLETIONS, ROOT, completion

ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_shtab_authorizerd
printf '%s\\n' "${COMPREPLY[@]}"
"""
HOSTILE = 'it\'s [a]: $(touch x) `touch x` "$HOME"'


def need(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Return what the command prints; it must print nothing on standard error."""
    done = run_program(*command, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the files are written."""
    folder = tmp_path_factory.mktemp("sources")
    write_install_files(folder)
    return folder


def script_of(sources: Path, shell: str) -> Path:
    return sources / "ops/completion" / Path(COMPLETIONS[shell]).name


@pytest.mark.parametrize(("shell", "section", "option"), [
    ("bash", r"^_shtab_{name}_option_strings=\((.*)\)$", r"[( ]--{name}[ )]"),
    ("zsh", r"^_shtab_{name}_options=\($(.*?)^\)$", r'[",)*]--{name}[}}\["]'),
    ("fish", r"^(complete -c authorizerd -n '?_shtab_{words}'? -.*)", r" -l {name} "),
])  # fmt: skip
def test_option_appears_with_its_command(
    sources: Path, shell: str, section: str, option: str
) -> None:
    script = script_of(sources, shell).read_text()
    flags = re.MULTILINE | (re.DOTALL if shell == "zsh" else 0)
    for command, actions in each_command(command_tree()):
        name = re.sub(r"\W", "_", command)
        words = command.replace("authorizerd", "authorizerd_using", 1)
        of_command = "\n".join(re.findall(section.format(name=name, words=words), script, flags))
        for flag in (flag for each in actions for flag in each.option_strings if len(flag) > 2):
            assert re.search(option.format(name=flag[2:]), f"({of_command} )"), (command, flag)


@need("bash")
@pytest.mark.parametrize(("words", "expected"), [
    (["d"], ["doctor", "docs"]),
    (["replay", "w"], ["whatif"]),
    (["doctor", "--"], ["--help", "--config", "--override", "--json"]),
    (["acls", "--allow-p"], ["--allow-principal"]),
    (["replay", "load", "--surface", ""], ["stream", "http"]),
    (["replay", "load", "--surface", "h"], ["http"]),
    (["replay", "load", "--surface", "http", "--dry"], ["--dry-run"]),
    (["explain", "--topic", "doctor", "--principal", "x", "--ho"], ["--host"]),
    (["acls", "--topic", "$(touch x)", "--deny-p"], ["--deny-principal"]),
    (["doctor", "--config", "serv"], ["server.properties"]),
    (["check-log", "serv"], ["server.properties"]),
    (["explain", "--principal", ""], []),
    (["who-can", "RE"], ["READ"]),
    (["explain", "--operation", "DESCRIBE_C"], ["DESCRIBE_CONFIGS"]),
    (["acls", "--operation", "WR"], ["WRITE"]),
    (["acls", "--resource-pattern-type", "M"], ["MATCH"]),
    (["what-can", "User:a", "--resource-type", "TO"], ["TOPIC"]),
    (["format", "--release-version", "4.3-"], ["4.3-IV0"]),
    (["features", "upgrade", "--metadata", "4.3-"], ["4.3-IV0"]),
    (["routes", "preset", "st"], ["strimzi-bridge"]),
    (["docs", "conf"], ["configuration", "conformance"]),
    (["nothing", "--j"], []),
])  # fmt: skip
def test_bash_completes_commands_flags_choices_and_files(
    sources: Path, words: list[str], expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "server.properties").touch()
    script = script_of(sources, "bash")
    answer = run("bash", "--norc", "-c", ASK, "bash", script, "authorizerd", *words, cwd=tmp_path)
    assert answer.split() == expected
    assert [path.name for path in tmp_path.iterdir()] == ["server.properties"]


@need("bash")
@pytest.mark.parametrize("shell", COMPLETIONS)
def test_help_text_is_never_executed(shell: str, tmp_path: Path) -> None:
    """bash can read the quotes of zsh and fish. Its own script has no help texts."""
    parser = argparse.ArgumentParser(prog="it", description=HOSTILE)
    parser.add_argument("--flag", help=HOSTILE, metavar=HOSTILE)
    parser.add_subparsers().add_parser("run", help=HOSTILE).add_argument("--y", help=HOSTILE)
    prepare(parser)
    script = completion(parser, shell)
    quoting = [line for line in script.splitlines() if "touch" in line]
    assert len(quoting) == (0 if shell == "bash" else 3)
    texts = [run("bash", "-c", f"printf '%s\\n' {line}", cwd=tmp_path) for line in quoting]
    if shell == "bash":
        run("bash", "--norc", "-c", script, cwd=tmp_path)
    assert all(HOSTILE in text.replace("\\", "") for text in texts)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=need(shell)) for shell in COMPLETIONS])
def test_shell_accepts_the_script(sources: Path, shell: str) -> None:
    run(shell, "-n", script_of(sources, shell))


@need("groff")
def test_troff_prints_the_page_without_a_warning(sources: Path) -> None:
    printed = run("groff", "-man", "-Tascii", "-P-cbou", "-ww", sources / "docs/authorizerd.1")
    headings = [line for line in printed.splitlines() if line.isupper() and line[0] != " "]
    assert headings == [
        *("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS"),
        *("EXIT STATUS", "ENVIRONMENT", "SIGNALS", "FILES", "SEE ALSO"),
    ]
    for command, actions in each_command(command_tree()):
        assert command in printed
        for flag in (flag for action in actions for flag in action.option_strings):
            assert flag in printed


def test_tree_has_every_command_with_its_flags() -> None:
    commands = dict(each_command(command_tree()))
    assert list(commands) == [
        "authorizerd",
        *(f"authorizerd {name}" for name in ("serve", "format", "token", "import-config")),
        *(f"authorizerd {name}" for name in ("reset-copy", "backup", "restore")),
        *("authorizerd features", "authorizerd acls", "authorizerd acls plan"),
        *("authorizerd acls apply", "authorizerd acls remove", "authorizerd acls grant"),
        *("authorizerd acls grants", "authorizerd acls compare-releases"),
        *("authorizerd acls export", "authorizerd acls import"),
        "authorizerd check-log",
        *("authorizerd doctor", "authorizerd replay"),
        *(f"authorizerd replay {name}" for name in ("ingest", "whatif", "usage", "load", "report")),
        *("authorizerd replay package", "authorizerd verify", "authorizerd review"),
        *(f"authorizerd {name}" for name in ("explain", "who-can", "what-can", "can", "test")),
        *(f"authorizerd {name}" for name in ("routes", "routes check", "routes preset")),
        *(f"authorizerd {name}" for name in ("history", "sync", "shell", "docs")),
    ]
    flags = {flag for action in commands["authorizerd doctor"] for flag in action.option_strings}
    assert flags == {"-h", "--help", "--config", "--override", "--json"}
    assert "--allow-principal" in {each.option_strings[0] for each in commands["authorizerd acls"]}
    assert not commands["authorizerd check-log"][1].option_strings


def test_internal_commands_are_removed_and_paths_are_marked() -> None:
    parser = argparse.ArgumentParser(prog="it")
    commands = parser.add_subparsers()
    commands.add_parser("internal")
    run = commands.add_parser("run", help="run it", add_help=False)
    run.add_argument("--file", type=Path)
    run.add_argument("--name")
    prepare(parser)
    (_, (name, actions)) = each_command(parser)
    assert name == "it run"
    assert [hasattr(action, "complete") for action in actions] == [True, False]


@pytest.mark.parametrize("text", ["a\\fBb", ".so /etc/passwd", "'quoted' first"])
@pytest.mark.parametrize("is_command", [False, True])
def test_text_that_cannot_be_quoted_is_rejected(text: str, is_command: bool) -> None:
    parser = argparse.ArgumentParser()
    inner = parser.add_subparsers().add_parser("run", help=text if is_command else "run it")
    inner.add_argument("--flag", help="a flag" if is_command else text)
    with pytest.raises(UnsafeTextError, match="expected no backslash"):
        prepare(parser)
