# One sort with a key that holds all six rules.
def choose_tiles(rows):
    tensor_cores = any(r["fits"] and not r["stack_bytes"] and r["tensor_core"] for r in rows)

    def place(r):
        return (
            not r["fits"],
            r["stack_bytes"] > 0,
            tensor_cores and r["tensor_core"] == 0,
            r["blocks_per_sm"] < 2,
            -r["block_q"],
            -r["block_k"],
            -r["num_stages"],
            r["registers"],
        )

    best = sorted(rows, key=place)[0]
    return tuple(best[name] for name in ("block_q", "block_k", "num_warps", "num_stages"))
