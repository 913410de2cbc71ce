# Takes the most query rows of all.
# Expected: misconception: bigger is better
def choose_tiles(rows):
    best = sorted(rows, key=lambda r: -r["block_q"])[0]
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
