"""A server of a few lines."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread


@contextmanager
def accepting(serve: Callable[[socket.socket], None], port: int = 0) -> Iterator[str]:
    """Serve each connection in a thread until it ends, also by an OSError; yield the address."""
    threads: list[Thread] = []

    def run(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            serve(connection)

    def accept() -> None:
        with suppress(OSError):  # the listener is shut down
            while True:
                threads.append(Thread(target=run, args=(listener.accept()[0],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", port)) as listener:
        accepting = Thread(target=accept)
        accepting.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join(5)
