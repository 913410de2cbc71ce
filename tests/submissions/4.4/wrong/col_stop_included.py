# col_stop is taken for the last key.
# Expected: misconception: stop is counted as part of the tile
# Equivalence class: as with > for >=, a query that does not see its own key.
def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    first_q, last_q = row_start + offset, row_stop - 1 + offset
    first_k, last_k = col_start, col_stop
    if last_q < first_k:
        return "skip"
    if first_q >= last_k:
        return "full"
    return "partial"
