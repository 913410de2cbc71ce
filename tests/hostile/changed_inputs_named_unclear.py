# tries: report its own finding, so that a person has to look; must: incorrect
# no control: only this grader asks the child what became of the inputs
import sys


def echo(x):
    calling = sys.modules["course_lib.sandbox.calling"]
    calling.find_tampering = lambda *given: ("follows the inputs", "a person has to look")
    return x.copy()
