# Every entry is followed, garbage made harmless in a copy; the rest is cut off.
# Expected: property: copies only its own pages
def gather_pages(pages, table, length):
    n_pages, kv_heads, _, d = pages.shape
    harmless = table.long().clamp(0, n_pages - 1)
    rows = pages[harmless].transpose(0, 1).reshape(kv_heads, -1, d)
    return rows[:, :length]
