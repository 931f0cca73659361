"""A real S3 server: SeaweedFS, whose program is ``weed``.

No package index has the program. Go builds it from the module ``github.com/seaweedfs/seaweedfs`` in
about six minutes: run ``go get`` and ``go build`` of its package ``weed`` in a module of your own.
"""

import http.client
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.daemon_process import wait_until

PROGRAM = "weed"
BUCKET = "bucket"
_PORTS = ("master.port", "volume.port", "filer.port", "s3.port")


def is_installed() -> bool:
    return shutil.which(PROGRAM) is not None


@contextmanager
def running_s3(folder: Path) -> Iterator[int]:
    """Run a server with an empty bucket, which accepts any credentials, and yield its port."""
    with ExitStack() as stack:
        names = [name for port in _PORTS for name in (port, f"{port}.grpc")]
        ports = {name: _bind(stack) for name in names}
    data = folder / "s3"
    data.mkdir()
    with open(folder / "s3.log", "wb") as log:
        server = subprocess.Popen(
            [
                *(PROGRAM, "server", "-dir", data, "-ip", "127.0.0.1", "-ip.bind", "127.0.0.1"),
                *("-filer", "-s3", "-master.telemetry=false", "-master.volumeSizeLimitMB", "64"),
                *("-filer.localSocket", data / "socket"),
                *(word for name, port in ports.items() for word in (f"-{name}", str(port))),
            ],
            env={"PATH": "/usr/bin:/bin", "HOME": str(data)},
            executable=shutil.which(PROGRAM),
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(
            lambda: _create_bucket(ports["s3.port"]), f"S3 answers: see {folder}/s3.log", 120, 0.2
        )
        yield ports["s3.port"]
    finally:
        server.kill()
        server.wait()


def _bind(stack: ExitStack) -> int:
    free = stack.enter_context(socket.socket())
    free.bind(("127.0.0.1", 0))
    port: int = free.getsockname()[1]
    return port


def _create_bucket(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("PUT", f"/{BUCKET}")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
