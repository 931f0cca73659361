"""Which ACLs recorded traffic used, and what narrower ones would have served."""
