# The keys are moved, not the queries.
# Expected: misconception: the offset has the wrong sign
# Equivalence class: moving the keys forward is moving the queries back.
def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    first_q, last_q = row_start, row_stop - 1
    first_k, last_k = col_start + offset, col_stop - 1 + offset
    if last_q < first_k:
        return "skip"
    if first_q >= last_k:
        return "full"
    return "partial"
