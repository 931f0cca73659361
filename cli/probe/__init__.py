"""``authorizerd verify --probe``: compare a live cluster's answers with ours, without audit logs.

**Invariant:** nothing is changed, neither in the cluster nor here. What the brokers do not show is
never taken for a denial of anything but DESCRIBE. A difference counts only if both sides repeat
their answers.
"""
