"""Archives: checkpoints as files that people read, keep in git and give to each other; docs/spec/archive.md.

`writing` and `exporting` make them, `sources`, `parsing` and `envelope` read them, `importing` puts them into a store,
`keeping` writes one beside each save. What is read is hostile until it is proven: everything is checked before anything
is written.
"""
