"""TLS: keystores, contexts, streams and the names of certificates, for servers and clients."""
