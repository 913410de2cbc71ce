# row_stop is taken for the last query.
# Expected: misconception: stop is counted as part of the tile
# Equivalence class: as for whoever sees one key of the future, but only where a tile is skipped.
def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    first_q, last_q = row_start + offset, row_stop + offset
    first_k, last_k = col_start, col_stop - 1
    if last_q < first_k:
        return "skip"
    if first_q >= last_k:
        return "full"
    return "partial"
