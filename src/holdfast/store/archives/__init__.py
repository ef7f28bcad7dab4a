"""Archives: checkpoints as files that people read, keep in git and give to each other; docs/spec/archive.md.

`writing` and `exporting` make them; `sources`, `parsing`, `envelope` and `reading` read and verify them; `planning`
works out what they mean for a store, and `bringing` writes that, as `importing` tells them; `keeping` writes one beside
each checkpoint of a Session. What is read is hostile until it is proven: all is checked before anything is written.
"""
