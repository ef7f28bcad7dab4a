"""MCP: the store as tools, resources and prompts for coding agents. It needs `holdfast[mcp]`.

`holdfast mcp` runs it on stdin and stdout; `create_http_app` makes the ASGI application for streamable HTTP, which has
to stand behind a guard. Clients of both generations of the protocol are served: before 2026-07-28, and since.
"""

from holdfast.mcp.server import create_http_app, create_server, serve_stdio

__all__ = ["create_http_app", "create_server", "serve_stdio"]
