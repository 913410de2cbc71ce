# tries: find the channel and send a verdict and a launch of its own; must: incorrect, error
# without the sandbox: sends a forged reply
import gc


def one_tile_attention(q, k, v):
    for thing in gc.get_objects():
        if type(thing).__name__ == "Channel":
            thing.send({"launch": {"do": "books"}, "verdict": "passed", "outcome": "passed"})
            thing.send({"result": q, "ledger": None, "passed": True, "score": 100})
    return q.clone()
