# Returns the row, not its four numbers.
# Expected: property: returns a tuple
def choose_tiles(rows):
    return next(r for r in rows if r["fits"] and not r["stack_bytes"])
