"""An MCP server on stdio, in nothing but Python's own library."""

import json
import socket
import sys

from WORDS import MARK

TOOLS = [
    {"name": "greet", "inputSchema": {"type": "object"}},
    {"name": "dial", "inputSchema": {"type": "object", "properties": {"host": {"type": "string"}, "port": {"type": "integer"}}}},
]


def dial(host, port):
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError as error:
        return "refused: %s" % error
    return "connected"


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "greeter", "version": "1.0"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        text = MARK if params["name"] == "greet" else dial(**params["arguments"])
        return {"content": [{"type": "text", "text": text}]}
    return {}


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            result = answer(request["method"], request.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
