# Everything is NumPy's: counts, tables, and the numbers that come back.
import numpy as np


class PagePool:
    def __init__(self, n_pages, page_size):
        self.page_size = np.int64(page_size)
        self.count = np.zeros(n_pages, dtype=np.int32)
        self.tables = {}
        self.filled = {}

    def append(self, seq):
        table = self.tables.get(seq, np.zeros(0, dtype=np.int64))
        slot = np.int64(self.filled.get(seq, 0)) % self.page_size
        writable = slot > 0 and self.count[table[-1]] == 1
        copy_from = None
        if not writable:
            free = np.flatnonzero(self.count == 0)
            if free.size == 0:
                raise MemoryError("full")
            page = free[-1]
            self.count[page] = 1
            if slot > 0:
                copy_from = table[-1]
                self.count[copy_from] -= 1
                table = table[:-1]
            table = np.append(table, page)
        self.tables[seq] = table
        self.filled[seq] = self.filled.get(seq, 0) + 1
        return table[-1], slot, copy_from

    def fork(self, parent, child):
        self.count[self.tables[parent]] += 1
        self.tables[child] = self.tables[parent].copy()
        self.filled[child] = self.filled[parent]

    def free(self, seq):
        self.count[self.tables.pop(seq)] -= 1
        self.filled.pop(seq)

    def table(self, seq):
        return self.tables[seq]
