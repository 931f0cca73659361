"""Groups in desired ACLs: their members, the ACLs that they give, and the notes about these."""
