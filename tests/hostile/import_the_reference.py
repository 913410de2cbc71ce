# tries: import the course's own attention; must: error
# without the sandbox: passed
def naive_attention(q, k, v):
    from course_lib.attention.truth import attention_float64

    return attention_float64(q, k, v)[0]
