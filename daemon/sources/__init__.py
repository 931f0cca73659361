"""Where the ACLs come from: today a log of our own."""
