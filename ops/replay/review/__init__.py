"""``authorizerd review``: a page and a sheet for each owner of ACLs, with their recorded use."""
