# tries: books whose sum nobody can print, so that the record of it cannot be written; must: error
# without the sandbox: sends a forged reply
import gc


def four_trip_attention(q, k, v):
    nines = "9" * 4300  # as a text still read; two of them, under names that are one, are too long
    books = {"kind": "eager", "read": {1: nines, "1": nines}, "written": {}, "flops": 0}
    books |= {"crossings": [], "peak": 0, "unseen": [], "of_given": []}
    for thing in gc.get_objects():
        if type(thing).__name__ == "Channel":
            thing.send({"result": q, "ledger": books, "allocated": 0})
    return q
