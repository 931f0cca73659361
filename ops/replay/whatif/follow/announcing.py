"""Announce who would be newly denied, once for each principal and each resource."""

from __future__ import annotations

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.text import format_count
from authorizerd.replay.whatif.report import WhatIf


class Announcer:
    """Prints a line for each name that was not in an earlier report."""

    def __init__(self) -> None:
        self._known: set[tuple[str, ...]] = set()

    def announce(self, report: WhatIf) -> None:
        """Print the new principals and resources among those that are newly denied.

        A report lists at most ``LISTED_MAX`` of each, and so does the console.
        """
        denied = report.newly_denied
        for detail in denied.details:
            names = {(detail.principal,), (detail.resource_type, detail.resource_name)}
            if not names <= self._known:
                self._known |= names
                host = "an unknown host" if detail.host is None else detail.host
                _print(
                    f"{detail.principal} {detail.operation} {detail.resource_type} "
                    f"{detail.resource_name} from {host}: {detail.candidate_rule}"
                )
        for one in denied.by_principal:
            self._add((one.principal,), one.events)
        for other in denied.by_resource:
            self._add((other.resource_type, other.resource_name), other.events)

    def _add(self, name: tuple[str, ...], events: int) -> None:
        """Print a name that occurs in no listed detail."""
        if name not in self._known:
            self._known.add(name)
            _print(f"{' '.join(name)}, {format_count(events, 'event')}")


def _print(text: str) -> None:
    print(f"newly denied: {escape_unprintable(text)}", flush=True)
