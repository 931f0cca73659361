"""The file of ``authorizerd.routes.file``, and the routes in force.

**Invariant:** a reload replaces the gateway's kind, its headers and all routes in one step. An
unusable file changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from authorizerd.daemon.errors import StartError
from authorizerd.daemon.secret_file import Forbidden, read_secret_file

if TYPE_CHECKING:
    from authorizerd.config.routes.document import Routes

FORWARD_PATH: Final = "/v1/forward-auth"
KEY: Final = "authorizerd.routes.file"
FILE_BYTES_MAX: Final = 1024 * 1024


def read_routes_text(path: str) -> str:
    """Return the text of the file at ``path``. Reading blocks.

    Raises:
        StartError: the file cannot be read, is not UTF-8, or is writable by everyone.
    """
    data = read_secret_file(path, key=KEY, bytes_max=FILE_BYTES_MAX, forbidden=Forbidden.WRITING)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise StartError(f"{KEY}: {path}:{line}: expected UTF-8 text") from None


class RouteFile:
    """The routes of all decision ports. There are none until a text has been applied.

    Args:
        path: the path of ``authorizerd.routes.file``, or None if it is not set.
    """

    def __init__(self, path: str | None) -> None:
        self._path: Final = path
        self.newest: Routes | None = None

    @property
    def is_configured(self) -> bool:
        return self._path is not None

    @property
    def text(self) -> str | None:
        """The text of the file in force, or None if there is no file."""
        return None if self.newest is None else self.newest.text

    def prepare_reload(self) -> Callable[[], None]:
        """Read the file again, and return a function that applies it. Reading blocks.

        Raises:
            ConfigurationError, StartError: the file is unusable.
        """
        return self.parse(None if self._path is None else read_routes_text(self._path))

    def parse(self, text: str | None) -> Callable[[], None]:
        """Parse a file's text, and return a function that applies it.

        Args:
            text: None if there is no file.

        Raises:
            ConfigurationError: the text has faults.
        """
        if self._path is None or text is None:
            return lambda: None
        # Imported only here: most daemons have no such file, and need no YAML.
        from authorizerd.config.routes.document import parse_routes_file

        routes = parse_routes_file(text, source=self._path)

        def apply() -> None:
            self.newest = routes

        return apply
