"""Clients of the decision stream: one that blocks, one for trio.

**Invariant:** a client never takes an error for an answer. What is not answered is raised, and who
asks must take that for a denial.
"""

from __future__ import annotations
