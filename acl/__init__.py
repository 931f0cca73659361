"""The rules of ACLs: model, validation, filters, index, snapshot, decision, explanation. No I/O."""
