"""Commands that answer by the ACLs of a source: explain, who-can, what-can, can."""
