"""The console without sockets, in front of the handlers of a decision port."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlencode

from msgspec.structs import replace

from authorizerd.acl.model import Acl
from authorizerd.acl.release_in_force import ReleaseInForce
from authorizerd.acl.releases import RULES_4_4
from authorizerd.actors.acl_journal import AclJournal
from authorizerd.actors.published import Published
from authorizerd.config.configuration import Configuration, parse
from authorizerd.config.dynamic import Layers
from authorizerd.daemon.console.requests import COOKIE
from authorizerd.daemon.console.setup import new_console
from authorizerd.daemon.decision_servers import new_decision_handler
from authorizerd.daemon.decisions.route_file import RouteFile
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.daemon.queries.change_authors import AuthorReader
from authorizerd.daemon.queries.watchers import Watchers
from authorizerd.daemon.telemetry.activity import Activity
from authorizerd.daemon.telemetry.metric_sources import MetricSources
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.protocol.http.messages import Response
from authorizerd.protocol.http.streamed import StreamedResponse
from tests.daemon.console.page_check import check_page
from tests.daemon.decision_place import Place
from tests.daemon.decisions.acl_place import read_streamed
from tests.daemon.local_queries import LocalQueries
from tests.daemon.search_place import image_of
from tests.support.requests import http_request

CONFIGURATION = parse("node.id=1\nlog.dirs=/log\n", source="test")
OWN_SITE = {"sec-fetch-site": "same-origin"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
EXPLAIN, ACLS = "/console/explain", "/console/acls"
WHO, WHAT, HISTORY = "/console/who", "/console/what", "/console/history"
PLAN, VERIFY, CHANGES = "/console/plan", "/console/verify", "/console/changes"
MATRIX, REACH, RISKS = "/console/matrix", "/console/reach", "/console/risks"


class ConsolePlace(Place):
    """The parts behind a console; without a folder, every visitor is trusted.

    Args:
        log_dir: the log whose past can be asked about.
    """

    def __init__(
        self,
        folder: Path | None,
        *acls: Acl,
        topics: tuple[str, ...] = (),
        log_dir: Path = Path("none"),
        configuration: Configuration = CONFIGURATION,
        authors: AuthorReader | None = None,
    ) -> None:
        super().__init__(folder, *acls)
        self.queries = queries = LocalQueries(
            self.snapshot, Published(image_of(*topics)), log_dir, now_ms=now_ms, authors=authors
        )
        self.decisions = new_decision_handler(
            configuration,
            self.authorizer,
            self.callers,
            Watchers(AclJournal(1), 8),
            queries,
            RouteFile(None),
        )
        # Only the pages about the daemon itself use more; tests/end_to_end visits them.
        release = Published(ReleaseInForce(RULES_4_4, "the test says so"))
        measured = cast(
            MetricSources,
            SimpleNamespace(
                authorizer=self.authorizer,
                origin=SimpleNamespace(cluster_id="cluster-1"),
                applier=SimpleNamespace(release=release),
            ),
        )
        no_readiness = cast(Readiness, None)
        self.console = new_console(
            configuration,
            self.callers,
            self.decisions,
            no_readiness,
            measured,
            {},
            queries,
            Activity(),
            lambda: Layers(file=configuration.file_values),
        )

    async def send(
        self,
        method: str,
        path: str,
        query: str = "",
        *,
        body: str = "",
        headers: dict[str, str] | None = None,
        principal: str | None = None,
    ) -> Response | StreamedResponse:
        lines = {name.encode(): value.encode() for name, value in (headers or {}).items()}
        lines[b"host"] = b"localhost"
        asked = http_request(path, body.encode(), method=method, query=query, headers=lines)
        return await self.console(replace(asked, principal=principal))

    async def get(self, path: str, caller: str = "", **fields: str) -> tuple[int, str]:
        """Return the status and the HTML of a page. ``caller`` is the id of a token."""
        headers = {"authorization": f"Bearer {caller}.secret"} if caller else {}
        response = await self.send("GET", path, urlencode(fields), headers=headers)
        assert isinstance(response, Response)
        return response.status, response.body.decode()

    async def submit(self, path: str, caller: str = "", **fields: str) -> tuple[int, str]:
        """Send a form from a page of the console; return the status and the HTML."""
        headers = OWN_SITE | FORM
        if caller:
            headers["authorization"] = f"Bearer {caller}.secret"
        response = await self.send("POST", path, body=urlencode(fields), headers=headers)
        assert isinstance(response, Response)
        return response.status, response.body.decode()

    async def text(self, path: str, caller: str = "", status: int = 200, /, **fields: str) -> str:
        """Return the text of a page that has this status, and loads nothing foreign."""
        found, page = await self.get(path, caller, **fields)
        assert found == status
        return check_page(page)

    async def submitted(
        self, path: str, caller: str = "", status: int = 200, /, **fields: str
    ) -> str:
        """Send a form; return the text of the page that answers it."""
        found, page = await self.submit(path, caller, **fields)
        assert found == status
        return check_page(page)

    async def download(self, path: str, caller: str = "", **fields: str) -> str:
        """Return the whole content of a file."""
        headers = {"authorization": f"Bearer {caller}.secret"} if caller else {}
        response = await self.send("GET", path, urlencode(fields), headers=headers)
        assert b"attachment" in dict(response.headers)[b"Content-Disposition"]
        return (await read_streamed(response)).decode()

    async def log_in(self, token: str, target: str = "/console/explain") -> Response:
        body = urlencode({"token": token, "next": target})
        response = await self.send("POST", "/console/login", body=body, headers=OWN_SITE | FORM)
        assert isinstance(response, Response)
        return response

    async def open_session(self, caller: str) -> str:
        """Log in with a token, and return the cookie that the browser sends from then on."""
        response = await self.log_in(f"{caller}.secret")
        assert response.status == 303, response.body
        cookie = dict(response.headers)[b"Set-Cookie"].decode()
        assert cookie.endswith("; Path=/console/; Secure; HttpOnly; SameSite=Strict")
        assert cookie.startswith(f"{COOKIE}=")
        return cookie.partition(";")[0]
