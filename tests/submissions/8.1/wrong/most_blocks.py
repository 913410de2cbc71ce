# Maximises the blocks on an SM.
# Expected: misconception: most blocks on an SM
def choose_tiles(rows):
    left = [r for r in rows if r["fits"] and not r["stack_bytes"]]
    left = [r for r in left if r["tensor_core"]] or left
    best = max(left, key=lambda r: r["blocks_per_sm"])
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
