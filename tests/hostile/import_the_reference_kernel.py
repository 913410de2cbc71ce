# tries: import the course's own kernel and launch it; must: error
# without the sandbox: passed
def one_tile_attention(q, k, v):
    from course_lib.kernels.flash_forward import flash_attention_with_lse

    return flash_attention_with_lse(q, k, v)[0]
