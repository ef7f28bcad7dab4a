"""Operations: what people and programs can ask of a store, declared once and offered by every server.

    @operation("checkpoint.tag", scope="write", path=None)
    def tag(service: Service, session: Session, checkpoint: Ref, tags: Tags) -> CheckpointChange[TagPlan]:
        '''Label a checkpoint.'''

The name, the parameters, the result and the first line of the docstring are all that a server needs: MCP tools,
JSON-RPC methods, REST paths, and the OpenRPC and OpenAPI descriptions are made from them. `Service` checks the
parameters and the scope, asks for a confirmation where something is destroyed, and carries the operation out.
"""

from holdfast.operations.operation import (
    OPERATIONS,
    SCOPES,
    Operation,
    Scope,
    allows,
    load_operations,
    operation,
)
from holdfast.operations.service import Call, Caller, Job, Service, error_record

__all__ = [
    "OPERATIONS",
    "SCOPES",
    "Call",
    "Caller",
    "Job",
    "Operation",
    "Scope",
    "Service",
    "allows",
    "error_record",
    "load_operations",
    "operation",
]
