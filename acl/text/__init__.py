"""Names, principals and errors as text: how they are compared, shown and confused."""
