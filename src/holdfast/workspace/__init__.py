"""Workspace: the code, commands and environment of a working folder, recorded and brought back without losing work."""
