# A page is an object that knows who holds it; free ones wait in a heap.
import heapq
from collections import namedtuple
from dataclasses import dataclass, field

Answer = namedtuple("Answer", "page slot copy_from")


@dataclass(order=True)
class Page:
    number: int
    owners: set = field(default_factory=set, compare=False)
    filled: int = field(default=0, compare=False)


@dataclass
class PagePool:
    n_pages: int
    page_size: int

    def __post_init__(self):
        self.heap = [Page(i) for i in range(self.n_pages)]
        self.sequences = {}

    def append(self, seq):
        pages = self.sequences.get(seq) or []
        last = pages[-1] if pages else None
        if last is None or last.filled == self.page_size:
            page = self._new(seq)
            self.sequences[seq] = [*pages, page]
            copied = None
        elif last.owners != {seq}:
            page = self._new(seq)
            page.filled = last.filled
            last.owners.remove(seq)
            pages[-1] = page
            copied = last.number
        else:
            page, copied = last, None
        page.filled += 1
        return Answer(page.number, page.filled - 1, copied)

    def _new(self, seq):
        try:
            page = heapq.heappop(self.heap)
        except IndexError:
            raise MemoryError("all pages are taken") from None
        page.owners, page.filled = {seq}, 0
        return page

    def fork(self, parent, child):
        pages = self.sequences[child] = list(self.sequences[parent])
        for page in pages:
            page.owners.add(child)

    def free(self, seq):
        for page in self.sequences.pop(seq):
            page.owners.discard(seq)
            if not page.owners:
                heapq.heappush(self.heap, page)

    def table(self, seq):
        return (page.number for page in self.sequences[seq])
