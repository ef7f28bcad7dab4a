"""Settings: what can be configured, and where each value comes from.

keys.py      every setting: name, type, default, variable, meaning
files.py     where settings files are, reading them, changing one value of them
settings.py  which value wins, and Settings, the typed result
near.py      names that were probably meant

Nothing is imported here: every command of the command line asks `files`, and mostly needs no more.
"""
