"""For people who write a backend, or test what stands on one.

    holdfast.testing.kit      BackendConformance: cases for each sentence of the contract (needs pytest)
    holdfast.testing.rows     rows and batches for such tests, in one line each
    holdfast.testing.faults   FaultyBackend: a backend that fails where a plan says so

Nothing is imported here, so that a test pays only for what it uses. `docs/how-to/write-a-backend.md` is the way in.
"""
