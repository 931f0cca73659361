"""Map a certificate's distinguished name to a principal."""
