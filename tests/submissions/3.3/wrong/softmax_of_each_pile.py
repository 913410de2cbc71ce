# Each pile's own softmax, averaged.
# Expected: misconception: the mean of the piles' averages
import numpy as np


def stream_average(piles, values):
    answers = []
    for s, v in zip(piles, values):
        p = np.exp(s - s.max())
        answers.append(p @ v / p.sum())
    return np.mean(answers, axis=0)
