# A dict of another kind, filled bit by bit, with exact fractions in it.
from collections import OrderedDict, defaultdict
from fractions import Fraction


def trip_bytes(n, d, itemsize):
    scores = n * n * itemsize
    trips = defaultdict(int)
    for name in ("write_s", "read_s", "write_p", "read_p"):
        trips[name] += scores
    trips["qkvo"] += 4 * n * d * itemsize
    found = OrderedDict(trips)
    found["total"] = sum(trips.values())
    found["total_gb"] = Fraction(found["total"], 10**9)
    found["s_mib"] = Fraction(scores, 1 << 20)
    return found
