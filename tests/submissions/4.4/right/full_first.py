# Asks for full first, with stops instead of last rows.
def classify_tile(row_start, row_stop, col_start, col_stop, offset=0):
    if col_stop <= row_start + offset + 1:
        return "full"
    elif col_start < row_stop + offset:
        return "partial"
    else:
        return "skip"
