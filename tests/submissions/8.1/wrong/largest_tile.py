# Takes the largest tile, whatever the x-ray says.
# Expected: misconception: bigger is better
def choose_tiles(rows):
    best = max(rows, key=lambda r: r["block_q"] * r["block_k"])
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
