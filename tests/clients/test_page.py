"""The programs of docs/clients.md and of the libraries' READMEs, run as they are shown."""

import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.clients.conftest import daemon_with_tokens
from tests.clients.remote_clients import compile_java, find_jdk
from tests.end_to_end.example_daemon import ExampleDaemon, running_example
from tests.support.certificates import Authority
from tests.support.daemon_process import ROOT, DaemonProcess, closed_address, running
from tests.support.programs import output_of, run_program
from tests.support.sizes import IS_WHOLE

SECONDS_MAX = 120
PAGE = "docs/clients.md"
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java that halve the time of a short program."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleDaemon]:
    with running_example(tmp_path_factory.mktemp("page")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def tls_daemon(
    tmp_path_factory: pytest.TempPathFactory, prepared_log: Path
) -> Iterator[tuple[DaemonProcess, Authority]]:
    """A daemon with TLS on its decision ports, and the CA of its certificate."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    config = authority.server_keys() | {
        "authorizerd.decision.http": "https://127.0.0.1:0",
        "authorizerd.decision.stream": "tls://127.0.0.1:0",
    }
    log_dir = Path(shutil.copytree(prepared_log, folder / "log"))
    with running(folder, log_dir, config) as daemon:
        yield daemon, authority


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def token_file_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with daemon_with_tokens(tmp_path_factory.mktemp("tokens")) as started:
        yield started


def blocks_of(document: str) -> list[tuple[str, str]]:
    text = (ROOT / document).read_text()
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def programs(language: str, document: str = PAGE) -> list[str]:
    return [text for name, text in blocks_of(document) if name == language]


def require(command: str, version: Sequence[str], major: int) -> str:
    """Return the path of a command, or skip the test if it is missing or too old."""
    path = shutil.which(command)
    if path is None:
        pytest.skip(f"the program needs {command!r}, which is not installed")
    printed = run_program(path, *version)
    found = re.search(r"(\d+)\.\d+", printed.stdout + printed.stderr)
    if found is None or int(found[1]) < major:
        pytest.skip(f"the program needs {command!r} {major} or later")
    return path


def printed_by(command: Sequence[object], folder: Path, **environment: str) -> str:
    return output_of(*map(str, command), cwd=folder, env={**os.environ, **environment}).strip()


def check(ask: Callable[[int], str], live_port: int, silent_port: int) -> None:
    """Run a program against the daemon, a silent peer, and no peer."""
    closed_port = int(closed_address().rpartition(":")[2])
    printed = [ask(port) for port in (live_port, silent_port, closed_port)]
    assert [each.splitlines()[-1].lower() for each in printed] == ["true", "false", "false"]


def port_of(daemon: ExampleDaemon, documented: str) -> int:
    return int(daemon.ports.to_real(f":{documented}").removeprefix(":"))


PROGRAMS = {
    "Python, blocking": ("ask.py", programs("python")[0], "8183"),
    "Python, asyncio": ("ask.py", programs("python")[1], "8183"),
    "Python, several": ("ask.py", programs("python")[3], "8183"),
    "Python, README": (
        "ask.py", programs("python", "clients/python/README.md")[0] + "print(may)", "8183",
    ),
    "Python without the library": ("ask.py", programs("python")[2], "8181"),
    "JavaScript": ("ask.mjs", programs("js")[0], "8183"),
    "JavaScript, README": (
        "ask.mjs", programs("js", "clients/javascript/README.md")[0] + "console.log(may);", "8183",
    ),
    "Java": ("Ask.java", programs("java")[0], "8183"),
    "Java, README": ("Ask.java", programs("java", "clients/java/README.md")[0], "8183"),
    "Go": ("ask.go", programs("go")[0], "8181"),
}  # fmt: skip
"""The file, the text and the port of each program that needs no TLS."""
TRIED = [name for name in PROGRAMS if IS_WHOLE or name not in ("Go", "Java, README")]
"""Go compiles its standard library for a minute first; Java compiles each program three times."""


def command_of(file: str, folder: Path, request: pytest.FixtureRequest) -> tuple[list[str], str]:
    """Return the command that runs a program in ``folder``, and the path of Python's modules."""
    match Path(file).suffix:
        case ".py":
            return [sys.executable, file], str(ROOT / "clients" / "python" / "src")
        case ".mjs":
            (folder / "node_modules").mkdir()
            library = folder / "node_modules" / "authorizerd-client"
            library.symlink_to(ROOT / "clients" / "javascript")
            return [require("node", ["--version"], 18), file], ""
        case ".java":
            return [find_jdk()[1], "-cp", str(compile_java()), file], ""
        case _:
            return [str(request.getfixturevalue("go_program"))], ""


@pytest.mark.parametrize("name", TRIED)
def test_program(
    name: str, tmp_path: Path, daemon: ExampleDaemon, silent_port: int,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    file, text, documented = PROGRAMS[name]
    assert ("timeout=1)" in text) is (name == "Python without the library")
    command, path = command_of(file, tmp_path, request)
    live_port = port_of(daemon, documented)

    def ask(port: int) -> str:
        limit = "timeout=0.2)" if port == silent_port else "timeout=60)"
        program = text.replace("timeout=1)", limit).replace(documented, str(port))
        (tmp_path / file).write_text(be_patient(program) if port == live_port else program)
        variables = {"AUTHORIZERD": f"http://127.0.0.1:{port}", "JAVA_TOOL_OPTIONS": FAST_START}
        return printed_by(command, tmp_path, PYTHONPATH=path, **variables)

    check(ask, live_port, silent_port)


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The compiled program. Without optimization and cgo, the library compiles in half the time."""
    go = require("go", ["version"], 1)
    folder = tmp_path_factory.mktemp("go")
    (program,) = programs("go")
    (folder / "ask.go").write_text(program)
    environment = {
        "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOPROXY": "off", "CGO_ENABLED": "0",
        "GOCACHE": str(request.config.cache.mkdir("go-build")), "GOPATH": str(folder / "path"),
    }  # fmt: skip
    printed_by([go, "build", "-gcflags=all=-N -l", "-o", "ask", "ask.go"], folder, **environment)
    return folder / "ask"


def be_patient(program: str) -> str:
    """Return the program with longer time limits, because a process may start slowly."""
    limits = {
        "_seconds=1.0": "_seconds=60.0",
        "Ms: 1000": "Ms: 60000",
        "ofSeconds(1)": "ofSeconds(60)",
    }
    for limit, longer in limits.items():
        program = program.replace(limit, longer)
    return program


def port_with_tls(daemon: DaemonProcess, name: str) -> str:
    return str(daemon.ready[name].rpartition(":")[2])


def check_with_tls(ask: Callable[[Path], str], authority: Authority, folder: Path) -> None:
    """Run a program with the daemon's own CA, and with another."""
    client = authority.issue("client")
    authorities = {"own": authority, "other": Authority(folder, "other")}
    for name in authorities:
        place = folder / name
        place.mkdir()
        shutil.copy(authorities[name].ca_file, place / "ca.pem")
        for file in ("client.pem", "client.key"):
            shutil.copy(client, place / file)
        printed = ask(place).lower().splitlines()
        assert printed[-1] == ("true" if name == "own" else "false")
        assert len(printed) == 1 or "unknown ca" in printed[0]


TLS_PROGRAMS = {
    "Python": ("ask.py", programs("python")[5], "8183", None),
    "JavaScript": ("ask.mjs", programs("js")[1], "8183", None),
    "Java": ("Ask.java", programs("java")[1], "8183", None),
    "Go": ("ask.go", programs("go")[0], "8181", programs("bash")[0]),
}
"""The file, the text and the port of each program with TLS, and the commands that run it."""


@pytest.mark.parametrize("name", [name for name in TLS_PROGRAMS if name in TRIED])
def test_program_with_tls(
    name: str, tmp_path: Path, tls_daemon: tuple[DaemonProcess, Authority],
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    daemon, authority = tls_daemon
    file, text, documented, commands = TLS_PROGRAMS[name]
    command, path = command_of(file, tmp_path, request)
    port = port_with_tls(daemon, "decision_stream" if documented == "8183" else "decision_http")
    program = be_patient(text).replace(documented, port)
    if commands is not None:
        own = command[0] if name == "Go" else "go run ask.go"
        shell = commands.replace(documented, port).replace("go run ask.go", own)
        command = ["bash", "-ec", shell]

    def ask(folder: Path) -> str:
        (folder / file).write_text(program)
        variables = {"PYTHONPATH": path, "JAVA_TOOL_OPTIONS": FAST_START}
        return printed_by(command, folder, **variables)

    check_with_tls(ask, authority, tmp_path)


def test_mirror_of_the_page(token_file_daemon: DaemonProcess, tmp_path: Path) -> None:
    """``User:root`` is a super user, and there are no ACLs."""
    address = token_file_daemon.ready["decision_http"]
    program = programs("python")[4].replace("127.0.0.1:8181", address)
    program = program.replace("ID.SECRET", "root.secret")
    for user, answer in (("root", "True"), ("alice", "False")):
        (tmp_path / "ask.py").write_text(program.replace("User:alice", f"User:{user}"))
        path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "clients/python/src")))
        printed = printed_by([sys.executable, "ask.py"], tmp_path, PYTHONPATH=path)
        assert printed == answer


def test_every_program_of_the_page_is_run() -> None:
    languages = sorted(language for language, _ in blocks_of(PAGE))
    assert languages == ["bash", "go"] + ["java"] * 2 + ["js"] * 2 + ["python"] * 6
