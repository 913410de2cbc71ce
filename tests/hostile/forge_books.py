# tries: send a reply whose books are absurd; must: incorrect, error
# without the sandbox: sends a forged reply
import gc


def four_trip_attention(q, k, v):
    for thing in gc.get_objects():
        if type(thing).__name__ == "Channel":
            thing.send({"result": q, "ledger": {"kind": "eager", "crossings": 7}, "allocated": []})
    return q
