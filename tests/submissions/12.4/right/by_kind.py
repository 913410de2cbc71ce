# Looks at the kind of value, not at the key; the keys of a reason come in another order.
def fits(key, asked, has):
    if isinstance(has, bool):
        return has or not asked
    if key == "gpu":
        return min(has) <= asked <= max(has)
    return asked is None or asked in has


def choose_backend(need, backends):
    name, reasons = None, {}
    for row in backends[::-1]:
        missing = sorted(key for key, asked in need.items() if not fits(key, asked, row[key]))
        if missing:
            reasons[row["name"]] = tuple(missing)
        else:
            name = row["name"]
    return name, reasons
