"""The trio tasks that each own one piece of state. They exchange values of ``acl``, never bytes."""
