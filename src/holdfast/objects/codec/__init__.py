"""Values as bytes, and bytes as values: canonical MessagePack, with a registry of classes."""
