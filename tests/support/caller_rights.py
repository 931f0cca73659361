"""What callers with some rights may ask of each surface, and the questions that show it."""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from authorizerd.protocol.http.rights import Needs, Right
from tests.support.api_documents import Endpoint


def is_forbidden(
    needs: Needs, rights: Iterable[Right], *, own: bool = False, past: bool = False
) -> bool:
    """Return True if a surface must refuse a caller with only these rights.

    Args:
        own: the question is about the caller itself.
        past: it is about an earlier moment.
    """
    needed = {needs.itself if own else needs.others, needs.past if past else None} - {None}
    return not needed <= set(rights)


def documents(endpoint: Endpoint, caller: str, as_of: int) -> Iterator[tuple[Any, bool, bool]]:
    """Yield bodies for an endpoint; whether each is about the caller, and about the past.

    Args:
        caller: its principal, of the type User.
        as_of: an offset that can be asked about.
    """
    assert endpoint.example is not None
    for own, principal in ((False, "User:alice"), (True, caller)):
        kind, _, name = principal.partition(":")
        document = copy.deepcopy(dict(endpoint.example))
        if "input" in document:
            document["input"]["requestContext"]["principal"] = {"principalType": kind, "name": name}
            yield document, own, False
            continue
        if "id" in document["subject"]:
            document["subject"]["id"] = name
        elif own:
            continue  # a search for subjects is about everyone
        document.pop("evaluations", None)
        document.setdefault("action", {"name": "read"})
        for past in (False, True):
            if past or endpoint.path != "/v1/history":
                yield {**document, "context": {"as_of": as_of} if past else {}}, own, past
