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

from tests.end_to_end.example_daemon import ExampleDaemon, running_example
from tests.support.certificates import Authority
from tests.support.daemon_process import ROOT, DaemonProcess, closed_address, running
from tests.support.programs import output_of, run_program

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


PYTHON = {
    "blocking": programs("python")[0],
    "trio": programs("python")[1],
    "several": programs("python")[3],
    "README": programs("python", "clients/python/README.md")[0] + "print(may)",
}
JAVASCRIPT = {
    "page": programs("js")[0],
    "README": programs("js", "clients/javascript/README.md")[0] + "console.log(may);",
}


@pytest.mark.parametrize("program", PYTHON.values(), ids=PYTHON)
def test_python_program(
    program: str, tmp_path: Path, daemon: ExampleDaemon, silent_port: int
) -> None:
    def ask(port: int) -> str:
        (tmp_path / "ask.py").write_text(program.replace("8183", str(port)))
        path = str(ROOT / "clients" / "python" / "src")
        return printed_by([sys.executable, "ask.py"], tmp_path, PYTHONPATH=path)

    check(ask, port_of(daemon, "8183"), silent_port)


def test_python_program_without_the_library(
    tmp_path: Path, daemon: ExampleDaemon, silent_port: int
) -> None:
    program = programs("python")[2]
    assert "timeout=1)" in program

    def ask(port: int) -> str:
        limit = "timeout=0.2)" if port == silent_port else "timeout=60)"
        text = program.replace("timeout=1)", limit).replace("8181", str(port))
        (tmp_path / "ask.py").write_text(text)
        return printed_by([sys.executable, "ask.py"], tmp_path)

    check(ask, port_of(daemon, "8181"), silent_port)


@pytest.mark.parametrize("program", JAVASCRIPT.values(), ids=JAVASCRIPT)
def test_javascript_program(
    program: str, tmp_path: Path, daemon: ExampleDaemon, silent_port: int
) -> None:
    node = require("node", ["--version"], 18)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "authorizerd-client").symlink_to(ROOT / "clients" / "javascript")

    def ask(port: int) -> str:
        (tmp_path / "ask.mjs").write_text(program.replace("8183", str(port)))
        return printed_by([node, "ask.mjs"], tmp_path)

    check(ask, port_of(daemon, "8183"), silent_port)


def test_java_program(tmp_path: Path, daemon: ExampleDaemon, silent_port: int) -> None:
    java = require("java", ["-version"], 17)
    (program,) = programs("java")
    (tmp_path / "Ask.java").write_text(program)

    def ask(port: int) -> str:
        url = f"http://127.0.0.1:{port}"
        environment = {"AUTHORIZERD": url, "JAVA_TOOL_OPTIONS": FAST_START}
        return printed_by([java, "Ask.java"], tmp_path, **environment)

    check(ask, port_of(daemon, "8181"), silent_port)


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


def test_go_program(
    tmp_path: Path, daemon: ExampleDaemon, silent_port: int, go_program: Path
) -> None:
    def ask(port: int) -> str:
        return printed_by([go_program], tmp_path, AUTHORIZERD=f"http://127.0.0.1:{port}")

    check(ask, port_of(daemon, "8181"), silent_port)


def be_patient(program: str) -> str:
    """Return the program with longer time limits, because a process's first handshake is slow."""
    limits = {"_seconds=1.0": "_seconds=60.0", "Ms: 1000": "Ms: 60000", "get(1,": "get(60,"}
    for limit, longer in limits.items():
        program = program.replace(limit, longer)
    return program


def port_with_tls(daemon: DaemonProcess, name: str) -> str:
    return str(daemon.ready[name].rpartition(":")[2])


def check_with_tls(
    ask: Callable[[Path], str], authority: Authority, folder: Path,
    names: Sequence[str] = ("own", "other"),
) -> None:  # fmt: skip
    """Run a program with the daemon's own CA, and with another."""
    client = authority.issue("client")
    authorities = {"own": authority, "other": Authority(folder, "other")}
    for name in names:
        place = folder / name
        place.mkdir()
        shutil.copy(authorities[name].ca_file, place / "ca.pem")
        for file in ("client.pem", "client.key"):
            shutil.copy(client, place / file)
        printed = ask(place).lower().splitlines()
        assert printed[-1] == ("true" if name == "own" else "false")
        assert len(printed) == 1 or "unknown ca" in printed[0]


def test_python_program_with_tls(
    tmp_path: Path, tls_daemon: tuple[DaemonProcess, Authority]
) -> None:
    daemon, authority = tls_daemon
    program = be_patient(programs("python")[4])
    program = program.replace("8183", port_with_tls(daemon, "decision_stream"))
    path = str(ROOT / "clients" / "python" / "src")

    def ask(folder: Path) -> str:
        return printed_by([sys.executable, "-c", program], folder, PYTHONPATH=path)

    check_with_tls(ask, authority, tmp_path)


def test_javascript_program_with_tls(
    tmp_path: Path, tls_daemon: tuple[DaemonProcess, Authority]
) -> None:
    node = require("node", ["--version"], 18)
    daemon, authority = tls_daemon
    program = be_patient(programs("js")[1])
    program = program.replace("8183", port_with_tls(daemon, "decision_stream"))
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "authorizerd-client").symlink_to(ROOT / "clients" / "javascript")

    def ask(folder: Path) -> str:
        (folder / "ask.mjs").write_text(program)
        return printed_by([node, "ask.mjs"], folder)

    check_with_tls(ask, authority, tmp_path)


def test_java_program_with_tls(tmp_path: Path, tls_daemon: tuple[DaemonProcess, Authority]) -> None:
    require("java", ["-version"], 17)
    daemon, authority = tls_daemon
    (program,) = programs("java")
    commands = programs("bash")[0].replace("8181", port_with_tls(daemon, "decision_http"))

    def ask(folder: Path) -> str:
        (folder / "Ask.java").write_text(be_patient(program))
        return printed_by(["bash", "-ec", commands], folder, JAVA_TOOL_OPTIONS=FAST_START)

    check_with_tls(ask, authority, tmp_path, ["own"])


def test_go_program_with_tls(
    tmp_path: Path, tls_daemon: tuple[DaemonProcess, Authority], go_program: Path
) -> None:
    daemon, authority = tls_daemon
    command = programs("bash")[1].replace("8181", port_with_tls(daemon, "decision_http"))
    command = command.replace("go run ask.go", str(go_program))

    def ask(folder: Path) -> str:
        return printed_by(["bash", "-ec", command], folder)

    check_with_tls(ask, authority, tmp_path)


def test_every_program_of_the_page_is_run() -> None:
    languages = sorted(language for language, _ in blocks_of(PAGE))
    assert languages == ["bash"] * 2 + ["go", "java"] + ["js"] * 2 + ["python"] * 5
