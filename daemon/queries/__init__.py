"""The query process: it answers what takes much longer than a decision, so decisions never wait."""
