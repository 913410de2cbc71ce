# Plays safe: the smallest tile.
# Expected: misconception: smaller is better
def choose_tiles(rows):
    best = min(rows, key=lambda r: r["block_q"] * r["block_k"])
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
