"""Operations on live agents: those that run in some process of this machine, and can be asked to save and restore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.agents import LiveList, live_agents
from holdfast.operations.operation import operation

if TYPE_CHECKING:
    from holdfast.operations.service import Service


@operation("live.list", path="/v1/live")
def list_(service: Service) -> LiveList:
    """List the agents that are awake in some process of this machine."""
    return LiveList(service.name, tuple(live_agents(service.store)))
