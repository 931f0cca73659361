"""server.properties and tokens: text to one frozen configuration, with errors that name the key."""
