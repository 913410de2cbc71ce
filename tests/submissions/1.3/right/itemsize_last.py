# Elements first, bytes at the end.
def trip_bytes(n, d, itemsize):
    elements = {
        "qkvo": 4 * n * d,
        "write_s": n * n,
        "read_s": n * n,
        "write_p": n * n,
        "read_p": n * n,
        "total": 4 * n * (n + d),
    }
    answer = {key: number * itemsize for key, number in elements.items()}
    answer.update(total_gb=answer["total"] / 1e9, s_mib=answer["read_s"] / (1 << 20))
    return answer
