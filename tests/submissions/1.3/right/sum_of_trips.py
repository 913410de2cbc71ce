# The total is the sum of what is in the dict.
TRIPS = ("write_s", "read_s", "write_p", "read_p")


def trip_bytes(n, d, itemsize):
    books = {"qkvo": sum(n * d * itemsize for _ in "QKVO")}
    for trip in TRIPS:
        books[trip] = n**2 * itemsize
    books["total"] = sum(books.values())
    books["total_gb"] = books["total"] / 10**9
    books["s_mib"] = books["write_s"] / 1024 / 1024
    return books
