"""A program in the place of an MCP server: it records each line that it receives.

It answers every request at once, except calls of the tool `hang`. It needs the standard library
alone, so that it starts fast.
"""

import json
import sys
from pathlib import Path


def main(record: Path) -> None:
    print("the server starts", file=sys.stderr, flush=True)
    for line in sys.stdin.buffer:
        with record.open("ab") as file:
            file.write(line)
        message = json.loads(line)
        hangs = message.get("params", {}).get("name") == "hang"
        if "id" in message and "method" in message and not hangs:
            result = {"content": [{"type": "text", "text": "ran"}]}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
