// Texts of errors that have several causes.

export const NOT_READY_TEXT =
  "the daemon cannot decide: its ACLs are not loaded yet, or stale; its /readyz says which";
