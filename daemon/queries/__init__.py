"""The query process: it answers slow questions, so decisions never wait for them."""
