"""Remove the events before a day from a table, in a commit of its own.

A run whose events are all earlier is dropped. A run with earlier and later events stays, from its
``first_day`` on: its files are not written again, and those of earlier days are removed once no
commit needs them. So a first ingest of years of logs expires day by day.

- **Figures:** those of a run that stays are of its events that are left. Its lines without an event
  have no day, so they stay until the whole run goes. A run that only has such lines goes with a
  later run.
- **Tuples** are sums, from which nothing can be subtracted: they are summed up again.
- **Contents and inputs** stay, so that no expired file is counted again. The leading rows of these
  contents can no longer be read, and count as skipped. So only a copy that is shorter than the
  file that was read is not recognized, and adds its lines again, until they expire.

**Invariant:** the new commit has exactly the events of the old one from the day on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from authorizerd.replay.ingest.commit import Commit, Content, Run
from authorizerd.replay.ingest.report import Ingested, add_up
from authorizerd.replay.ingest.summary import Group, make_figures


def find_kept(commit: Commit, first_day: str) -> tuple[Run, ...]:
    """Return the runs that stay, from the day ``first_day`` (YYYY-MM-DD) on.

    The figures of a run that loses some of its days are still those of all its events.
    """
    kept: list[Run] = []
    is_later_dropped = False
    for run in reversed(commit.runs):
        days = tuple(day for day in run.days if day >= first_day)
        if days == run.days and not (is_later_dropped and not days):
            kept.append(run)
        elif days:
            kept.append(replace(run, days=days, first_day=first_day))
        else:
            is_later_dropped = True
    return tuple(reversed(kept))


def find_cut(commit: Commit, kept: Iterable[Run]) -> tuple[Run, ...]:
    """Return the runs that stay, and lose some of their days."""
    before = {run.id: run.first_day for run in commit.runs}
    return tuple(run for run in kept if run.first_day != before[run.id])


def expire(
    commit: Commit,
    kept: Sequence[Run],
    groups: Iterable[tuple[str, Group]],
    tuples_run: str,
    tuples: int,
) -> Commit:
    """Return the next commit, which has the runs of ``find_kept``.

    Args:
        groups: the events that ``find_cut`` leaves, with the ids of their runs.
        tuples_run: the run in whose directory the tuples of all events that stay were written.
        tuples: their number.
    """
    of_run: dict[str, list[Group]] = {run.id: [] for run in find_cut(commit, kept)}
    for run, group in groups:
        of_run[run].append(group)
    runs = tuple(
        replace(run, ingested=_leave(run.ingested, of_run[run.id])) if run.id in of_run else run
        for run in kept
    )
    whole = {run.id for run in runs} - of_run.keys()
    return replace(
        commit,
        number=commit.number + 1,
        runs=runs,
        tuples_run=tuples_run if tuples else None,
        contents=tuple(
            content if content.run in whole else _skip(content) for content in commit.contents
        ),
        ingested=replace(
            add_up([run.ingested for run in runs], tuples),
            damaged=commit.ingested.damaged,
            logs=commit.ingested.logs,
        ),
    )


def _leave(ingested: Ingested, groups: Iterable[Group]) -> Ingested:
    """Return the figures of a run with these events instead of all."""
    left = make_figures(groups, ingested.time_zone, ingested.inputs)
    return replace(
        ingested,
        lines=ingested.lines - ingested.events + left.events,
        **{name: getattr(left, name) for name in _OF_EVENTS},
    )


def _skip(content: Content) -> Content:
    """Return a content none of whose leading rows can be read."""
    return replace(content, skipped_rows=content.rows, skipped_digest=content.digest)


_OF_EVENTS = ("events", "allowed_events", "denied_events", "levels", "first_at", "last_at")
