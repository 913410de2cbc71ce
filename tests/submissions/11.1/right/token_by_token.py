# A page is taken when a token finds none; math.ceil would do.
def page_waste(lengths, page_size, *, layers, kv_heads, head_dim, b):
    row = layers * kv_heads * head_dim * b
    reserved = wasted = 0
    for length in lengths:
        free = 0
        for _ in range(length):
            if free == 0:
                reserved += 2 * page_size * row
                free = page_size
            free -= 1
        wasted += 2 * free * row
    return [reserved, wasted]
