"""Plans: the changes that turn the ACLs in force into desired ones, in an order that is safe."""
