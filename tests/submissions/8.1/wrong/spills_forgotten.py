# Looks at shared memory and forgets the registers.
# Expected: misconception: spills are ignored
def choose_tiles(rows):
    left = [r for r in rows if r["fits"]]
    left = [r for r in left if r["tensor_core"]] or left
    left = [r for r in left if r["blocks_per_sm"] >= 2] or left
    left.sort(key=lambda r: (-r["block_q"], -r["block_k"], -r["num_stages"], r["registers"]))
    best = left[0]
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
