# tries: return values one by one, after the count of them is switched off; must: error
# no control: how long a grader would look depends on how it looks
from course_lib.sandbox import calling


def echo(x):
    calling.has_too_many_parts = lambda result: False
    return ["x"] * 70_000
