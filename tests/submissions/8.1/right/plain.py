# The plain way: wrong.diff holds edits of this file.
def choose_tiles(rows):
    left = [r for r in rows if r["fits"] and not r["stack_bytes"]]
    left = [r for r in left if r["tensor_core"]] or left
    left = [r for r in left if r["blocks_per_sm"] >= 2] or left
    best = max(left, key=lambda r: (r["block_q"], r["block_k"], r["num_stages"], -r["registers"]))
    return best["block_q"], best["block_k"], best["num_warps"], best["num_stages"]
