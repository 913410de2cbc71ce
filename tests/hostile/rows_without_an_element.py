# tries: return an array without elements whose rows no memory could list; must: error
# no control: how much a grader takes of it depends on what it does with it
import numpy as np


def offsets_of_program_2():
    return np.zeros((1 << 40, 0))
