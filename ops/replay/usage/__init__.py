"""``replay usage``: find the ACLs that recorded traffic used, and narrower ones for it."""
