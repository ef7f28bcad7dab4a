"""The state of an autonomous agent: the record, where it is stored, and the manager that saves it."""
