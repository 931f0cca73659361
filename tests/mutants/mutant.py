"""A mutant: one broken guard, and the test that must notice it.

**Invariant:** a mutant's text occurs exactly once in its file. So a change that moves or removes
the guard is noticed.
"""

from dataclasses import dataclass


class StaleMutantError(Exception):
    """The code has changed: the mutant's text is gone, or occurs more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A part of ``file`` and what replaces it; ``found_by`` is the id of the test."""

    file: str
    text: str
    becomes: str = ""
    found_by: str

    def applied_to(self, source: str) -> str:
        """Return ``source``, the text of ``file``, with the guard broken.

        Raises:
            StaleMutantError: the text does not occur exactly once.
        """
        count = source.count(self.text)
        if count != 1:
            raise StaleMutantError(
                f"{self.file}: expected {self.text!r} once, found it {count} times"
            )
        return source.replace(self.text, self.becomes)
