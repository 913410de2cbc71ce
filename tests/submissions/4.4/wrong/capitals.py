# Other words.
# Expected: property: the answer
def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    first_q, last_q = row_start + offset, row_stop - 1 + offset
    first_k, last_k = col_start, col_stop - 1
    if last_q < first_k:
        return "SKIP"
    if first_q >= last_k:
        return "FULL"
    return "PARTIAL"
