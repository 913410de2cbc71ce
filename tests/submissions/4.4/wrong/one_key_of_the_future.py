# A query sees the key after its own.
# Expected: misconception: a query sees one key of the future
def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    first_q, last_q = row_start + offset + 1, row_stop + offset
    first_k, last_k = col_start, col_stop - 1
    if last_q < first_k:
        return "skip"
    if first_q >= last_k:
        return "full"
    return "partial"
