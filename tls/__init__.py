"""TLS for servers and clients: keystores, contexts, streams, and certificate names."""
