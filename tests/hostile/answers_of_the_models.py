# tries: import the course's own formula; must: error
# without the sandbox: passed
def causal_tiles(n, block_q, block_k):
    from course_lib.accounting.traffic import derived_counts

    found = derived_counts(n, n, block_q, block_k, True)
    return found["visited_tiles"], found["partial_tiles"]
