"""A mutant: one guard broken, and the test that must notice it.

**Invariant:** a mutant's text occurs exactly once in its file, so that a change of the code which
moves the guard is noticed, and the mutant with it.
"""

from __future__ import annotations

from dataclasses import dataclass


class StaleMutantError(Exception):
    """The code has changed: the mutant's text is gone, or occurs more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """``name`` says what is broken; ``file`` is where, from the root; ``found_by`` a node id."""

    name: str
    file: str
    text: str
    becomes: str
    found_by: str

    def applied_to(self, source: str) -> str:
        """Return ``source``, which ``file`` holds, broken.

        Raises:
            StaleMutantError: the text does not occur in it exactly once.
        """
        count = source.count(self.text)
        if count != 1:
            raise StaleMutantError(
                f"{self.file}: the text of {self.name!r} stands there {count} times"
            )
        return source.replace(self.text, self.becomes)
