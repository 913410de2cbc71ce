# Python's own copy.
import copy


def echo(x):
    return copy.deepcopy(x)
