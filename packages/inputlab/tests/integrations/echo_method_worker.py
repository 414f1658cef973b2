"""A method worker for tests: the payload of a request says what to answer."""

import json
import sys

request = json.loads(sys.stdin.readline())
wanted = request["payload"]
answer = {"request_id": request["request_id"], "status": "ok", "payload": {"answer": wanted.get("answer")}}
if "failure_code" in wanted:
    answer = {
        "request_id": request["request_id"],
        "status": "error",
        "failure_code": wanted["failure_code"],
        "message": "not for the console",
    }
if "usage" in wanted:
    answer["usage"] = wanted["usage"]
print(json.dumps(answer))
