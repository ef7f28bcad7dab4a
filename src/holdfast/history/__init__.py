"""Checkpoints in time: the record, refs, walks through ancestry, the operation log."""
