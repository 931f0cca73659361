"""Send damaged and invented inputs to every reader of bytes and text that strangers can reach."""
