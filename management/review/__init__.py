"""Access reviews: who owns which ACLs, and the sheets in which owners decide about them."""
