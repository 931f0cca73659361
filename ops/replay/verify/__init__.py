"""``authorizerd verify``: compare brokers' recorded decisions with those of this code.

**Invariant:** a decision counts as a difference only if no state of the ACLs explains it that may
have been in force: within a window around its time, and by the rules of any possible release. What
cannot be judged is counted with the reason, and never as agreement.
"""
