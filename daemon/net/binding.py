"""Bind addresses at the start, and accept connections from them later.

Because binding comes first, a port in use is noticed before anything is loaded. Until its endpoint
opens, a socket is bound but does not listen, so early clients are refused at once instead of
waiting.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from authorizerd.config.endpoints import HttpEndpoint, is_loopback, loopback_error
from authorizerd.daemon.errors import StartError
from authorizerd.protocol.worker_feed import WorkerAddress

BACKLOG: Final = 1024
"""The maximum number of connections that wait to be accepted. A longer queue would only make all
of them wait longer."""
UNIX_MODE: Final = 0o660
"""Permissions of a Unix socket: its owner and group may connect, and therefore ask questions."""

_REMEDIES: Final = {
    errno.EADDRINUSE: "end the process that listens there, or change the key",
    errno.EADDRNOTAVAIL: "expected an address of this machine",
    errno.EACCES: "use a port above 1023, or let the daemon's user bind there",
}


class SocketFile:
    """The file of a Unix socket that was just bound at ``path``.

    **Invariant:** only the file of this socket is removed. Another daemon may have replaced it; the
    open descriptor keeps the inode number from being reused for that daemon's file.
    """

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            OSError: the file no longer exists.
        """
        self._path: Final = path
        self._descriptor: Final = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)

    def permit(self, mode: int) -> None:
        """Set the file's permissions, even if its path names another file by now."""
        os.chmod(f"/proc/self/fd/{self._descriptor}", mode)

    @property
    def is_in_place(self) -> bool:
        """True if clients that connect to the path reach this socket."""
        try:
            return os.path.samestat(self._path.lstat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def remove(self) -> None:
        try:
            if self.is_in_place:
                self._path.unlink()
        except FileNotFoundError:
            pass
        finally:
            os.close(self._descriptor)


class BoundEndpoint:
    """The sockets of one endpoint; ``listen`` turns them into listeners, once.

    Args:
        path: the path of a Unix socket.
        file: the file that ``close`` removes.
    """

    def __init__(
        self,
        key: str,
        sockets: Sequence[trio.socket.SocketType],
        path: Path | None = None,
        *,
        is_inherited: bool = False,
        file: SocketFile | None = None,
    ) -> None:
        self._key = key
        self._sockets = sockets
        self.path: Final = path
        self._file = file
        self._is_inherited = is_inherited
        self._listening = trio.Event()

    @property
    def address(self) -> str:
        """The first address as ``host:port``, an IPv6 host in brackets, or ``unix:PATH``."""
        if self.path is not None:
            return f"unix:{self.path}"
        host, port = self._sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def host(self) -> str:
        return str(self._sockets[0].getsockname()[0])

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    def listen(self) -> list[trio.SocketListener]:
        """Start listening; from now on the listeners own the sockets.

        Until a Unix socket listens, it looks like one that a killed process left behind, so a
        second daemon may remove its file. That is impossible once it listens, so the check comes
        after ``listen``.

        Raises:
            StartError: another process has started to listen there, or has bound the path.
        """
        try:
            for bound in self._sockets:
                bound.listen(BACKLOG)
        except OSError as error:
            raise StartError(f"{self._key}: {self.address}: {error.strerror}") from error
        self.check_in_place()
        self._listening.set()
        return [trio.SocketListener(bound) for bound in self._sockets]

    def check_in_place(self) -> None:
        """Check that clients of a Unix socket's path reach this socket, which listens by now.

        Raises:
            StartError: another process has bound the path.
        """
        if self._file is not None and not self._file.is_in_place:
            raise StartError(
                f"{self._key}: {self.address}: another process has bound the path in the meantime; "
                "configure a different path for each daemon"
            )

    @property
    def is_listening(self) -> bool:
        """True once ``listen`` has been called."""
        return self._listening.is_set()

    async def wait_until_listening(self) -> None:
        """Return once ``listen`` has been called."""
        await self._listening.wait()

    def place(self, name: str) -> WorkerAddress:
        """Return where a worker accepts connections: the same addresses, or the same sockets.

        A worker inherits Unix sockets, and sockets that the daemon itself inherited, because their
        addresses cannot be bound twice.
        """
        if self.path is not None or self._is_inherited:
            return WorkerAddress(
                name, descriptors=tuple(socket.fileno() for socket in self._sockets)
            )
        # IPv6 addresses have two more numbers than IPv4 addresses; pad to the same length.
        addresses = [(socket.family, *socket.getsockname(), 0, 0)[:5] for socket in self._sockets]
        return WorkerAddress(name, tuple(addresses))

    def close(self) -> None:
        for bound in self._sockets:
            bound.close()
        file, self._file = self._file, None
        if file is not None:
            file.remove()


async def bind(host: str | None, port: int, key: str, *, is_shared: bool = False) -> BoundEndpoint:
    """Bind every address of ``host`` (None: every interface), all to the same port.

    Args:
        is_shared: worker processes of this daemon, but no others, may bind the same addresses.

    Raises:
        StartError: an address is in use, or is not this machine's, or ``localhost`` is not a
            loopback address; the error names ``key``.
    """
    sockets: list[trio.socket.SocketType] = []
    wanted = port
    is_local = is_loopback(HttpEndpoint(host=host, port=port))
    try:
        found = await trio.socket.getaddrinfo(
            host, port, type=trio.socket.SOCK_STREAM, flags=trio.socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in found:
            bound = trio.socket.socket(family, kind, protocol)
            sockets.append(bound)
            _set_options(bound)
            resolved = HttpEndpoint(host=str(address[0]), port=port)
            if is_local and not is_loopback(resolved):
                # Loopback callers are trusted without credentials, so check what the name resolves
                # to.
                raise OSError(loopback_error(resolved))
            wanted_address = (address[0], port, *address[2:])
            if is_shared:
                await _check_unused(bound, wanted_address)
                bound.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_REUSEPORT, 1)
            await bound.bind(wanted_address)
            if is_shared:
                # From now on, ``_check_unused`` fails in other daemons, even if no worker listens.
                bound.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_REUSEADDR, 0)
            port = bound.getsockname()[1]  # with port 0, all use the first address's port
    except OSError as error:
        for bound in sockets:
            bound.close()
        raise StartError(f"{key}: {host or '*'}:{wanted}: {_describe(error)}") from error
    return BoundEndpoint(key, sockets)


def _describe(error: OSError) -> str:
    """Return why an address cannot be bound, and what to do."""
    reason = error.strerror or str(error)
    advice = _REMEDIES.get(error.errno or 0)
    return reason if advice is None else f"{reason}: {advice}"


def _set_options(bound: trio.socket.SocketType) -> None:
    # Connections of an earlier run that are still in TIME_WAIT must not prevent a restart.
    bound.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_REUSEADDR, 1)
    if bound.family == trio.socket.AF_INET6:
        # IPv4 has a separate socket, so that no client's address is an IPv4-mapped one.
        bound.setsockopt(trio.socket.IPPROTO_IPV6, trio.socket.IPV6_V6ONLY, 1)


async def _check_unused(like: trio.socket.SocketType, address: tuple[str | int, ...]) -> None:
    """Raise OSError if another daemon is bound there: the two would share the port."""
    # Without SO_REUSEPORT, the probe cannot listen where a worker listens, nor where another daemon
    # has bound the address and then cleared SO_REUSEADDR. Some kernels notice the latter only when
    # the probe listens: a bind with SO_REUSEADDR may skip the comparison with other sockets.
    with trio.socket.socket(like.family, like.type, like.proto) as probe:
        _set_options(probe)
        await probe.bind(address)
        probe.listen(1)


async def listen_at(place: WorkerAddress) -> list[trio.SocketListener]:
    """In a worker, listen at the address that the daemon names.

    Raises:
        StartError: an address cannot be shared; the error names the endpoint.
    """
    if place.descriptors:
        inherited = [trio.socket.socket(fileno=descriptor) for descriptor in place.descriptors]
        for bound in inherited:
            bound.set_inheritable(False)
            bound.listen(BACKLOG)
        return [trio.SocketListener(bound) for bound in inherited]
    sockets: list[trio.socket.SocketType] = []
    try:
        for family, *address in place.addresses:
            bound = trio.socket.socket(family, trio.socket.SOCK_STREAM)
            sockets.append(bound)
            _set_options(bound)
            bound.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_REUSEPORT, 1)
            is_v6 = family == trio.socket.AF_INET6
            await bound.bind(tuple(address if is_v6 else address[:2]))
            bound.listen(BACKLOG)
    except OSError as error:
        for bound in sockets:
            bound.close()
        raise StartError(f"{place.name}: {error.strerror or error}") from error
    return [trio.SocketListener(bound) for bound in sockets]


async def bind_unix(path: Path, key: str) -> BoundEndpoint:
    """Bind a Unix socket, after removing the socket that a killed process left there.

    Raises:
        StartError: the path is in use, or its file is not a socket; the error names ``key``.
    """
    bound = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    try:
        await _remove_stale(trio.Path(path))
        await bound.bind(str(path))
        file = SocketFile(path)
        file.permit(UNIX_MODE)
    except OSError as error:
        bound.close()
        raise StartError(f"{key}: unix:{path}: {_describe(error)}") from error
    return BoundEndpoint(key, [bound], path, file=file)


async def _remove_stale(path: trio.Path) -> None:
    """Remove a socket on which nobody listens.

    Raises:
        OSError: a process listens on it, or the file is not a socket.
    """
    try:
        if not stat.S_ISSOCK((await path.lstat()).st_mode):
            raise FileExistsError(errno.EEXIST, "the file exists, but is not a socket")
    except FileNotFoundError:
        return
    with trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM) as probe:
        try:
            await probe.connect(str(path))
        except ConnectionRefusedError:
            await path.unlink()
            return
    raise OSError(errno.EADDRINUSE, "Address already in use")
