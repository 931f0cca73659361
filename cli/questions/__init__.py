"""Commands that answer from the ACLs of a source: explain, who-can, what-can, can, history."""
