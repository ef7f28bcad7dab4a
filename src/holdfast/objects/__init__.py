"""State as immutable, hashed bytes: the codec, the type registry, compression and verified reads."""
