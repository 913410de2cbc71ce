# Counts holders; takes the page that was free first.
class PagePool:
    def __init__(self, n_pages, page_size):
        self.page_size = page_size
        self.unused = list(range(n_pages))
        self.holders = {}
        self.tables = {}
        self.lengths = {}

    def take(self):
        if not self.unused:
            raise MemoryError("no page is free")
        page = self.unused.pop(0)
        self.holders[page] = 1
        return page

    def let_go(self, page):
        self.holders[page] -= 1
        if self.holders[page] == 0:
            self.unused.append(page)

    def append(self, seq):
        length = self.lengths.get(seq, 0)
        slot = length % self.page_size
        copy_from = None
        if slot == 0:
            page = self.take()
            self.tables.setdefault(seq, []).append(page)
        else:
            page = self.tables[seq][-1]
            if self.holders[page] > 1:
                copy_from = page
                page = self.take()
                self.tables[seq][-1] = page
                self.let_go(copy_from)
        self.lengths[seq] = length + 1
        return page, slot, copy_from

    def fork(self, parent, child):
        self.tables[child] = self.tables[parent].copy()
        self.lengths[child] = self.lengths[parent]
        for page in self.tables[child]:
            self.holders[page] += 1

    def free(self, seq):
        for page in self.tables[seq]:
            self.let_go(page)
        del self.tables[seq]
        del self.lengths[seq]

    def table(self, seq):
        return self.tables[seq]
