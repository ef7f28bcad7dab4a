"""Settings: what can be configured, and where each value comes from.

keys.py          every setting: its name, its type, its default, its variable
files.py         where settings files are looked for
entries.py       a value as it stands in a file
reading.py       the settings of one file, checked, each with its line
yaml_reading.py  the same of a YAML file, which is not trusted
resolving.py     which value wins
loaded.py        Settings: the typed result
toml_editing.py  one value of a TOML file changed, and nothing else
near.py          names that were probably meant

Nothing is imported here: every command of the command line asks `files`, and mostly needs no more.
"""
