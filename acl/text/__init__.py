"""Names, principals and errors as text: how it is compared, shown, and taken for other text."""
