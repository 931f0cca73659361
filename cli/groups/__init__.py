"""Read groups from files, and from a directory by LDAP."""
