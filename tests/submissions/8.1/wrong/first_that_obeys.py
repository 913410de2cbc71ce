# Stops at rule 4.
# Expected: misconception: rules 5 and 6 are left out
def choose_tiles(rows):
    left = [r for r in rows if r["fits"] and not r["stack_bytes"]]
    left = [r for r in left if r["tensor_core"]] or left
    left = [r for r in left if r["blocks_per_sm"] >= 2] or left
    best = left[0]
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
