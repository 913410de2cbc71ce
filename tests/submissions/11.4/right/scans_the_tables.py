# Keeps tables and lengths only: who holds a page is looked up each time.
class PagePool:
    def __init__(self, n_pages, page_size):
        self.n_pages, self.page_size = n_pages, page_size
        self.sequences = {}  # name: (table, length)

    def how_many_hold(self, page):
        return sum(page in table for table, _ in self.sequences.values())

    def lowest_free(self):
        for page in range(self.n_pages):
            if self.how_many_hold(page) == 0:
                return page
        raise MemoryError

    def append(self, seq):
        table, length = self.sequences.get(seq, ((), 0))
        slot, copy_from = length % self.page_size, None
        if slot == 0:
            table = (*table, self.lowest_free())
        elif self.how_many_hold(table[-1]) > 1:
            copy_from = table[-1]
            table = (*table[:-1], self.lowest_free())
        self.sequences[seq] = table, length + 1
        return [table[-1], slot, copy_from]

    def fork(self, parent, child):
        self.sequences[child] = self.sequences[parent]

    def free(self, seq):
        del self.sequences[seq]

    def table(self, seq):
        return self.sequences[seq][0]
