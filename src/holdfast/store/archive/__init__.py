"""Archives: checkpoints as files that people read, keep in git and give to each other; docs/spec/archive.md."""
