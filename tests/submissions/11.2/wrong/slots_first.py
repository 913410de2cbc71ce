# All first slots, then all second ones.
# Expected: misconception: slots come before pages
def gather_pages(pages, table, length):
    _, kv_heads, page_size, d = pages.shape
    used = -(-length // page_size)
    own = pages[table[:used].long()]
    return own.permute(1, 2, 0, 3).reshape(kv_heads, used * page_size, d)[:, :length]
