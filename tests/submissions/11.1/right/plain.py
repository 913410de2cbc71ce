# A loop over the sequences, one after another.
def page_waste(lengths, page_size, *, layers, kv_heads, head_dim, b):
    reserved = 0
    filled = 0
    for length in lengths:
        pages = (length + page_size - 1) // page_size
        reserved += pages * page_size
        filled += length
    wasted = reserved - filled
    slot = 2 * layers * kv_heads * head_dim * b
    return reserved * slot, wasted * slot
