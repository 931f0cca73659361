"""The memory of the largest pages and downloads, which the sum of all bounds counts."""

from __future__ import annotations

import tracemalloc
from urllib.parse import urlencode

import pytest

from authorizerd.acl.model import Acl
from authorizerd.config.bounds import CONSOLE_DOWNLOAD_BYTES_MAX, CONSOLE_PAGE_BYTES_MAX
from authorizerd.protocol.http.messages import Response
from tests.daemon.console.console_place import WHAT, ConsolePlace
from tests.support.acls import acl

HOSTS = [acl("User:a", "ALL", topic="t", host=f"{number:04}{'h' * 996}") for number in range(1040)]
NAMES = [acl("User:a", "READ", topic="\U00020000" * 2990 + str(number)) for number in range(2000)]


@pytest.mark.parametrize(
    ("held", "fields", "suffix"),
    [
        pytest.param(HOSTS, {"resource_name": "t"}, ".csv", id="many hosts in a download"),
        pytest.param(NAMES, {"sort": "name"}, "", id="long names in a page"),
    ],
)
async def test_largest_answer_fits_into_its_bound(
    held: list[Acl], fields: dict[str, str], suffix: str
) -> None:
    place = ConsolePlace(None, *held)
    fields = {"principal": "User:a", "resource_type": "TOPIC", "operation": "READ", **fields}

    async def drop(data: bytes) -> None:
        pass

    async def answer() -> None:
        response = await place.send("GET", f"{WHAT}{suffix}", urlencode(fields))
        assert response.status == 200
        if not isinstance(response, Response):
            await response.write(drop)
            response.close()

    await answer()  # what is kept for later requests does not count
    tracemalloc.start()
    try:
        await answer()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (CONSOLE_DOWNLOAD_BYTES_MAX if suffix else CONSOLE_PAGE_BYTES_MAX)
