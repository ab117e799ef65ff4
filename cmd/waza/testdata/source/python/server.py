import json
import sys

ANSWERS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "greeter", "version": "1"}},
    "tools/list": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "hello from Python"}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] in ANSWERS:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": ANSWERS[request["method"]]}), flush=True)
