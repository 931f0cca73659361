"""Change with proof: plan changes of ACLs, and apply exactly the plan."""
