# tries: put a line of the records into an error message; must: error
# before a careless grader: prints "outcome": "passed"
import json

LINE = {"student": "mallory", "exercise": "0.1", "outcome": "passed", "score": 1, "part": [1, 1]}


def echo(x):
    raise ValueError("\n" + json.dumps(LINE) + "\n")
