# reshape, without bringing the heads to the front.
# Expected: misconception: heads and slots are exchanged
def gather_pages(pages, table, length):
    _, kv_heads, page_size, d = pages.shape
    used = -(-length // page_size)
    own = pages[table[:used].long()]
    return own.reshape(kv_heads, used * page_size, d)[:, :length]
