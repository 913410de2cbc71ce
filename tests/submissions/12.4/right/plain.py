# A line for each kind of comparison, all reasons first.
def choose_backend(need, backends):
    reasons = {}
    for row in backends:
        oldest, newest = row["gpu"]
        why = []
        if need["gpu"] < oldest or need["gpu"] > newest:
            why.append("gpu")
        if need["dtype"] not in row["dtype"]:
            why.append("dtype")
        if need["cache"] not in row["cache"]:
            why.append("cache")
        if need["d"] not in row["d"]:
            why.append("d")
        if need["mask"] not in row["mask"]:
            why.append("mask")
        if need["page"] is not None and need["page"] not in row["page"]:
            why.append("page")
        if need["mixed"] and not row["mixed"]:
            why.append("mixed")
        if need["backward"] and not row["backward"]:
            why.append("backward")
        reasons[row["name"]] = why
    can = [name for name, why in reasons.items() if not why]
    chosen = can[0] if can else None
    return chosen, {name: why for name, why in reasons.items() if why}
