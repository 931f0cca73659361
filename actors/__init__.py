"""The trio tasks that each own one piece of state. They speak acl's values, never bytes."""
