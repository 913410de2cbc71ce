# A loop, and a list in place of a tuple.
def choose_tiles(rows):
    rows = [r for r in rows if r["fits"] and r["stack_bytes"] == 0]
    if any(r["tensor_core"] for r in rows):
        rows = [r for r in rows if r["tensor_core"]]
    if any(r["blocks_per_sm"] > 1 for r in rows):
        rows = [r for r in rows if r["blocks_per_sm"] > 1]
    for name, sign in (("block_q", 1), ("block_k", 1), ("num_stages", 1), ("registers", -1)):
        top = max(sign * r[name] for r in rows)
        rows = [r for r in rows if sign * r[name] == top]
    (r,) = rows
    return [r["block_q"], r["block_k"], r["num_warps"], r["num_stages"]]
