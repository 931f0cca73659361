"""The JavaScript and Java clients behind the methods of the Python clients.

Each language has one process, which calls its client as the tests say: `drivers/driver.mjs` and
`drivers/Driver.java`. Both sides write frames of a length and msgpack.
"""

import atexit
import hashlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import pytest
import trio

from authorizerd_client import errors
from tests.clients.tls_peer import TlsFiles
from tests.support.daemon_process import ROOT

DRIVERS: Final = Path(__file__).parent / "drivers"
JAVA_SOURCES: Final = ROOT / "clients" / "java" / "src" / "main" / "java"
SECONDS_MAX: Final = 60
_OPTIONS: Final = {
    "timeout_seconds": "timeoutMs",
    "connect_timeout_seconds": "connectTimeoutMs",
    "failover_timeout_seconds": "failoverTimeoutMs",
    "frame_bytes_max": "frameBytesMax",
    "frames_in_flight_max": "framesInFlightMax",
    "calls_max": "callsMax",
    "bytes_max": "bytesMax",
}


class OtherError(errors.AuthorizerdError):
    """An error that the Python clients do not have; `name` is its class."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class RemoteDecisions:
    """What a client said about the questions of one frame."""

    offset: int
    codes: bytes
    allowed: list[bool]


class Driver:
    """The process of one language."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._numbers = count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._writing = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()
        atexit.register(self._end)

    def _end(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait(10)

    def start(self, name: str, *given: object) -> Future[Any]:
        """Start a call of the driver; the future raises the error of the client."""
        future: Future[Any] = Future()
        with self._writing:
            number = next(self._numbers)
            self._waiting[number] = future
            content = msgspec.msgpack.encode([number, name, *map(_to_plain, given)])
            assert self._process.stdin is not None
            view = memoryview(len(content).to_bytes(4) + content)
            while view:
                view = view[self._process.stdin.write(view) :]
        return future

    def call(self, name: str, *given: object) -> Any:  # noqa: ANN401 - what the client returned
        return self.start(name, *given).result(SECONDS_MAX)

    def _read(self) -> None:
        output = self._process.stdout
        assert output is not None
        while size := _read_exactly(output, 4):
            number, is_done, value = msgspec.msgpack.decode(
                _read_exactly(output, int.from_bytes(size))
            )
            future = self._waiting.pop(number)
            if is_done:
                future.set_result(value[0])
            else:
                future.set_exception(_new_error(*value))
        for future in self._waiting.values():
            future.set_exception(RuntimeError("the driver has ended"))


def _read_exactly(output: Any, size: int) -> bytes:  # noqa: ANN401 - a raw stream
    data = b""
    while len(data) < size and (more := output.read(size - len(data))):
        data += more
    return data


def _to_plain(value: object) -> object:
    """Return what the drivers read: lists, texts, integers, bytes and None."""
    match value:
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                units = value.encode("utf-16-be", "surrogatepass")
                return [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
            return value
        case list() | tuple():
            return [_to_plain(each) for each in value]
        case Path():
            return str(value)
        case int() if value >= 2**63:
            return float(value)
        case int() | bytes() | None:
            return value
        case _:
            return b""  # something that no question may contain


def _new_error(name: str, message: str, code: int | None, retry_ms: int | None) -> Exception:
    kind = getattr(errors, name, None)
    if name in ("TypeError", "IllegalArgumentError", "ValueError"):
        return ValueError(message)
    if kind is None:
        return OtherError(name, message)
    if code is None:
        return kind(message)  # type: ignore[no-any-return] # found by its name
    text = message.removesuffix(f" (error {code})")
    assert text != message
    more = () if retry_ms is None else (retry_ms / 1000,)
    return kind(text, code, *more)  # type: ignore[no-any-return] # found by its name


class RemoteClient:
    """A client in the process of a driver."""

    _handles = count(1)

    def __init__(self, driver: Driver, address: str | list[str], **options: Any) -> None:  # noqa: ANN401 - the client's options
        self._driver = driver
        self._handle = next(RemoteClient._handles)
        addresses = [address] if isinstance(address, str) else address
        flat: list[object] = []
        for name, value in options.items():
            if value is None:
                continue
            given = value
            if name.endswith("_seconds"):
                given = round(value * 1000)
            elif isinstance(value, TlsFiles):
                given = [value.ca, value.certificate, value.version]
            flat += [_OPTIONS.get(name, name), given]
        driver.call("new", self._handle, addresses, flat)

    @property
    def offset(self) -> int:
        return int(self._driver.call("offset", self._handle))

    async def connect(self) -> None:
        await self._call("connect")

    async def decide(self, question: Sequence[object], **options: Any) -> bool:  # noqa: ANN401
        return bool(await self._call("decide", *_read_options(**options), question))

    async def decide_many(
        self, questions: Sequence[Sequence[object]], **options: Any  # noqa: ANN401
    ) -> RemoteDecisions:  # fmt: skip
        asked = await self._call("decideMany", *_read_options(**options), questions)
        offset, codes, allowed = asked
        return RemoteDecisions(offset, bytes(codes), allowed)

    async def filter_allowed(self, *arguments: Any, **options: Any) -> list[str]:  # noqa: ANN401
        *about, names = arguments
        question = [*about, ""]
        return list(
            await self._call("filterAllowed", *_read_options(**options), question, list(names))
        )

    async def read_offset(self) -> int:
        return int(await self._call("readOffset"))

    def require_offset(self, offset: int) -> None:
        self._driver.call("requireOffset", self._handle, offset)

    def move_clock(self, seconds: int) -> None:
        """Move the clock of this and all other clients of the language."""
        self._driver.call("shift", 1000 * seconds)

    def close(self) -> None:
        self._driver.call("close", self._handle)

    async def _call(self, name: str, *given: object) -> Any:  # noqa: ANN401 - what it returned
        future = self._driver.start(name, self._handle, *given)
        done, token = trio.Event(), trio.lowlevel.current_trio_token()

        def tell(_: object) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(done.set)

        future.add_done_callback(tell)
        with trio.fail_after(SECONDS_MAX):
            await done.wait()
        return future.result()


def _read_options(
    min_offset: int = -1, timeout_seconds: float | None = None
) -> tuple[int, int | None]:
    return min_offset, None if timeout_seconds is None else round(timeout_seconds * 1000)


@cache
def find_node() -> str:
    """Return Node.js, or skip the test."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("the client runs on Node.js: no 'node' found")
    return node


@cache
def find_jdk() -> tuple[str, str]:
    """Return javac and java, or skip the test."""
    javac, java = shutil.which("javac"), shutil.which("java")
    printed = "" if javac is None else subprocess.check_output([javac, "-version"], text=True)
    version = re.search(r"javac (\d+)", printed)
    if javac is None or java is None or version is None or int(version[1]) < 17:
        pytest.skip("the client is built by Java 17: no 'javac' of that version found")
    return javac, java


@cache
def compile_java() -> Path:
    """Return the folder with the classes of the client and its driver.

    The processes of a test run, and later runs, share it as long as the sources are the same.
    """
    javac, _ = find_jdk()
    sources = [*sorted(JAVA_SOURCES.rglob("*.java")), DRIVERS / "Driver.java"]
    sources = [each for each in sources if each.name != "module-info.java"]
    digest = hashlib.sha256(b"\0".join(each.read_bytes() for each in sources)).hexdigest()
    folder = ROOT / ".run" / "java-client" / digest[:16]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as fresh:
            command = [javac, "--release", "17", "-Xlint:all", "-Werror", "-d", f"{fresh}/classes"]
            subprocess.run([*command, *sources], check=True)
            with suppress(OSError):  # another process was earlier
                os.rename(f"{fresh}/classes", folder)
    return folder


@cache
def start_driver(language: str) -> Driver:
    """Return the process of a language, or skip the test."""
    if language == "javascript":
        return Driver([find_node(), DRIVERS / "driver.mjs"])
    fast = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m")
    return Driver([find_jdk()[1], *fast, "-cp", compile_java(), "authorizerd.client.Driver"])


def new_remote(language: str, *arguments: Any, **options: Any) -> RemoteClient:  # noqa: ANN401
    return RemoteClient(start_driver(language), *arguments, **options)


REMOTE: Final[dict[str, Callable[..., RemoteClient]]] = {
    language: partial(new_remote, language) for language in ("javascript", "java")
}
