"""Change ACLs by plan: plan the changes, and apply exactly the plan."""
