"""For people who write a backend, or test what stands on one.

    holdfast.testing.kit   BackendConformance: one test per sentence of the contract (needs pytest)
    holdfast.testing.rows          rows and batches for such tests, in one line each
    tests.model.store         ModelStore: the slow, obvious store that the real one is compared with
    holdfast.testing.faults        FaultyBackend: a backend that fails where a plan says so
    tests.values        values that are hard to keep, and equality that sees types (needs hypothesis)

Nothing is imported here, so that a test pays only for what it uses. `docs/how-to/write-a-backend.md` is the way in.
"""
