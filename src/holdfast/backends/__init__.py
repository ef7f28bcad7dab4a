"""Where bytes live. Each backend implements `holdfast.storage.ports`; none knows another."""
