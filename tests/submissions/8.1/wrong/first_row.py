# Takes the first row.
# Expected: misconception: the first row
def choose_tiles(rows):
    best = rows[0]
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
