# Minimises the registers.
# Expected: misconception: smaller is better
def choose_tiles(rows):
    best = min(rows, key=lambda r: r["registers"])
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
