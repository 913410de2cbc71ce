# Counts the allowed pairs.
def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    seen = total = 0
    for i in range(row_start, row_stop):
        for j in range(col_start, col_stop):
            seen += j <= i + offset
            total += 1
    return {0: "skip", total: "full"}.get(seen, "partial")
