# Rows are taken for keys.
# Expected: misconception: the rule is reversed
# Equivalence class: then the past is the future, as with a reversed rule.
def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    first_q, last_q = col_start + offset, col_stop - 1 + offset
    first_k, last_k = row_start, row_stop - 1
    if last_q < first_k:
        return "skip"
    if first_q >= last_k:
        return "full"
    return "partial"
