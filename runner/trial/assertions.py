# Evaluates assertions. Stdin is JSON: variables, and the expressions over them.
# The last line of stdout is JSON: what came of each.
import json
import os
import re
import sys


def main():
    text = sys.stdin.read()
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what expressions print is no answer
    results = []
    for expression in json.loads(text)["assertions"]:
        # Fresh values each time: no assertion sees what another did to them.
        scope = {"json": json, "os": os, "re": re, **json.loads(text)["variables"]}
        try:
            results.append({"holds": bool(eval(expression.strip(), scope))})
        except BaseException as problem:
            results.append({"error": f"{type(problem).__name__}: {problem}"[:300]})
    answer.write(json.dumps({"results": results}) + "\n")
    answer.flush()


main()
