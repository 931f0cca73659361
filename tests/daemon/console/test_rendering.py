"""Hostile names are shown safely, and rendering leaves no garbage."""

import gc
from pathlib import Path
from typing import Any

import pytest
import trio
from jinja2 import UndefinedError

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.daemon.console.rendering import render
from authorizerd.daemon.queries.tables import CUT_CHARACTERS, cut
from authorizerd.management.formats.listing import write
from tests.daemon.console.console_place import (
    ACLS,
    EXPLAIN,
    MATRIX,
    PLAN,
    REACH,
    RISKS,
    VERIFY,
    WHAT,
    WHO,
    ConsolePlace,
)
from tests.daemon.console.page_check import HOSTILE, check_page
from tests.support.acls import acl
from tests.support.turns import Turns
from tests.support.verification import parse_with, write_findings


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_name_is_only_text(name: str, tmp_path: Path) -> None:
    """It is the principal, the resource, and a part of each sentence about them."""
    place = ConsolePlace(
        tmp_path,
        acl(f"User:{name}", "READ", topic=name),
        acl(f"User:{name}", "WRITE", topic=name, host="10.0.0.1"),
        acl(f"User:{name}", "ALL", topic=name, deny=True, host="10.0.0.2"),
        configuration=parse_with(write_findings(tmp_path / "state", name)),
    )
    question = {"resource_type": "TOPIC", "resource_name": name, "host": "10.0.0.3"}
    principal = {"principal": f"User:{name}"}
    for path, fields in (
        (EXPLAIN, question | principal | {"operation": "READ"}),
        (EXPLAIN, question | principal | {"operation": "WRITE"}),
        (WHO, question | {"operation": "READ"}),
        (WHAT, principal | {"resource_type": "TOPIC", "operation": "READ", "host": "10.0.0.3"}),
        (WHAT, question | principal),
        (ACLS, {}),
        (ACLS, principal),
        (ACLS, {"search": name}),
        (VERIFY, {}),
        (MATRIX, {}),
        (MATRIX, {"principal": f"User:{name}", "topic": name}),
        (REACH, principal),
        (RISKS, {}),
        (RISKS, {"search": name}),
    ):
        status, page = await place.get(path, "root", **fields)
        assert status == 200, page
        text = check_page(page)
        if len(name) < CUT_CHARACTERS and name.isprintable():
            assert name in text
        if path != WHAT and not set(name) & set("\t\n\r"):
            assert escape_unprintable(name)[:CUT_CHARACTERS] in text


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("field", ["principal", "operation", "resource_type", "host", "as_of", "x"])
async def test_hostile_field_is_only_text(field: str, name: str) -> None:
    """The error repeats it, and so does the form."""
    fields = {
        "principal": "User:a",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource_name": "t",
    }
    status, page = await ConsolePlace(None).get(EXPLAIN, **(fields | {field: name}))
    assert status in (200, 400)
    check_page(page)


async def test_form_repeats_a_field_exactly() -> None:
    """An escape sequence in its place would be another question."""
    _, page = await ConsolePlace(None).get(EXPLAIN, principal="User:\u202e\"a'")
    assert 'value="User:\u202e&#34;a&#39;"' in page


async def test_misspelled_name_in_a_template_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        await render("error.html.jinja", {"status": 404})


def test_long_name_is_cut() -> None:
    assert cut("a" * CUT_CHARACTERS) == "a" * CUT_CHARACTERS
    assert cut("a" * 1301) == "a" * CUT_CHARACTERS + "… (1,301 characters)"


async def test_rendering_leaves_no_garbage_in_cycles(tmp_path: Path) -> None:
    """The daemon freezes all objects every 50 ms, so it would never free them."""
    place = ConsolePlace(
        tmp_path, acl("User:a", "READ", topic="t"), acl("User:b", "ALL", topic="t", deny=True)
    )
    question = {"operation": "WRITE", "resource_type": "TOPIC", "resource_name": "t"}
    candidates = write([acl("User:a", "WRITE", topic="t")]).text

    async def visit() -> None:
        for principal in ("User:a", "User:b", "x:"):
            await place.get(EXPLAIN, "root", principal=principal, **question)
            await place.get(WHAT, "root", principal=principal, **question)
        await place.get(WHAT, "root", principal="User:a", resource_type="TOPIC", operation="READ")
        await place.get(WHO, "root", **question)
        await place.get(ACLS, "root", search="a")
        await place.submit(PLAN, "root", mode="replace", acls=candidates)
        for path in (MATRIX, REACH, RISKS):
            await place.get(path, "root", **({"principal": "User:a"} if path == REACH else {}))

    await visit()
    gc.collect()
    gc.disable()
    try:
        await visit()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left: list[Any] = [each for each in gc.garbage if "jinja2" in repr(type(each))]
        count = len(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == []
    assert count == 0


async def test_long_page_is_rendered_in_turns() -> None:
    """Each part may be followed by other tasks: with turns of no time, all of them are."""
    context = {
        "navigation": {f"/{number}": "x" for number in range(500)},
        "cluster": None,
        "here": "",
        "locked": (),
        "principal": None,
        "is_known": False,
        "has_session": False,
        "status": 404,
        "reason": "r",
    }
    turns = Turns()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("authorizerd.actors.steps.TURN_SECONDS", 0.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turns.run)
            await render("error.html.jinja", context)
            nursery.cancel_scope.cancel()
    assert turns.count > 500
