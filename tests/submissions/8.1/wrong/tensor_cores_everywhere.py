# Demands tensor cores on a T4 too, and is left with nothing.
# Expected: misconception: a T4 is left without a choice
def choose_tiles(rows):
    best = None
    for r in rows:
        if not r["fits"] or r["stack_bytes"] or not r["tensor_core"] or r["blocks_per_sm"] < 2:
            continue
        key = (r["block_q"], r["block_k"], r["num_stages"], -r["registers"])
        if best is None or key > best[0]:
            best = key, r
    if best is None:
        return None
    best = best[1]
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
