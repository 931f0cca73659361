"""``authorizerd verify --follow``: compare brokers' decisions while they are logged.

``files`` reads the logs, ``history`` the ACLs, ``shadow`` judges each line once both are known, and
``state`` keeps the positions and the counts in one file.

**Invariant:** every line is counted once, also if any process ends at any moment. No line is judged
before the history reaches past its time and the window.
"""
