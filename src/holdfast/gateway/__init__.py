"""The gateway: JSON-RPC, REST and live events over a store, for programs and browsers of this machine.

`holdfast serve` runs it; `create_app` makes the ASGI application for a server of your own. It needs
`holdfast[gateway]`.
"""

from holdfast.gateway.app import create_app, serve
from holdfast.gateway.security import Guard, Limits, Tokens

__all__ = ["Guard", "Limits", "Tokens", "create_app", "serve"]
