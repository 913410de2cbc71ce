"""PageTable: waste by hand, what a pool of one's own does, and clicks in the browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from traitlets import TraitError

from course_lib.widgets import PageTable
from course_lib.widgets.page_table import EXAMPLES

LENGTHS = (5, 17, 32, 700)


@pytest.mark.parametrize(
    ("page_size", "pages", "empty"), [(1, 754, 0), (16, 49, 30), (64, 14, 142)]
)
def test_waste_by_hand(page_size, pages, empty):
    c = PageTable(lengths=LENGTHS, reserve=1024, page_size=page_size).counts()
    assert (c["pages"], c["empty"]) == (pages, empty)
    assert (c["tokens"], c["unused"], c["reserved"]) == (754, 3342, 4096)


def test_a_shared_page_is_counted_once():
    table = PageTable.example("fork")
    c = table.counts()
    assert (c["pages"], c["empty"], c["tokens"]) == (2, 15, 4 * 17)
    assert c["holders"] == {0: 4, 1: 4}
    assert "2 pages, 15 of 32 slots empty" in table.to_table()


def test_the_figure_is_to_scale():
    axes = PageTable().to_figure().axes[0]
    bars = [(round(bar.get_y()), bar.get_width(), bar.get_hatch()) for bar in axes.patches]
    for way, slots, empty in ((0, 160, 21), (1, 256, 117)):
        widths = [(width, hatch) for y, width, hatch in bars if y == way]
        assert sum(width for width, _ in widths) == slots
        assert sum(width for width, hatch in widths if hatch) == empty


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [
        (lambda: PageTable(size=1), ValueError, "no setting 'size'"),
        (lambda: PageTable(page_size=65), TraitError, "page_size must be"),
        (lambda: PageTable(lengths=()), ValueError, "1 to 6 lengths"),
        (lambda: PageTable(lengths=(300,), reserve=256), ValueError, "do not fit into 256"),
        (lambda: PageTable.example("typo"), ValueError, "name must be one of"),
        (lambda: PageTable.replay(Pool, [("grow", "A")]), ValueError, "an operation is"),
        (lambda: PageTable.replay(Pool, [("append", "A", 9999)]), ValueError, "2000 steps"),
    ],
)
def test_bad_values_get_one_sentence(act, error, sentence):
    with pytest.raises(error, match=sentence):
        act()


# Pools like students' -----------------------------------------------------------------------------


class Pool:
    """A right one: a page is free where no table names it."""

    def __init__(self, n_pages: int, page_size: int) -> None:
        self.n_pages, self.page_size = n_pages, page_size
        self.tables: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}

    def append(self, seq: str) -> tuple[int, int, int | None]:
        table, n = self.tables.get(seq, []), self.lengths.get(seq, 0)
        slot, copy_from = n % self.page_size, None
        if slot and self.is_shared(table[-1]):
            copy_from, table = table[-1], table[:-1]
        if not slot or copy_from is not None:
            free = set(range(self.n_pages)).difference(*self.tables.values())
            if not free:
                raise MemoryError("full")
            table = [*table, max(free)]
        self.tables[seq], self.lengths[seq] = table, n + 1
        return table[-1], slot, copy_from

    def is_shared(self, page: int) -> bool:
        return sum(page in table for table in self.tables.values()) > 1

    def fork(self, parent: str, child: str) -> None:
        self.tables[child], self.lengths[child] = list(self.tables[parent]), self.lengths[parent]

    def free(self, seq: str) -> None:
        del self.tables[seq], self.lengths[seq]

    def table(self, seq: str) -> list[int]:
        return self.tables[seq]


class NeverCopies(Pool):
    """Writes to a page that another request reads."""

    def is_shared(self, page: int) -> bool:
        return False


class ForgetsToCopy(Pool):
    """Takes a fresh page and does not say what must be copied there."""

    def append(self, seq: str) -> tuple[int, int, int | None]:
        page, slot, _ = super().append(seq)
        return page, slot, None


class Raises(Pool):
    def fork(self, parent: str, child: str) -> None:
        raise KeyError("no idea")


class Strange(Pool):
    def append(self, seq: str) -> Any:
        return None


class LosesTheFull(Pool):
    """Forgets a request when it finds no page."""

    def append(self, seq: str) -> tuple[int, int, int | None]:
        try:
            return super().append(seq)
        except MemoryError:
            self.free(seq)
            raise


class OutOfRange(Pool):
    def table(self, seq: str) -> list[int]:
        return [99]


WALK = [("append", "A", 6), ("fork", "A", "B"), ("append", "A"), ("append", "B"), ("free", "A")]


def last(pool: Any, walk: Any = WALK, **settings: Any) -> dict[str, Any]:
    return PageTable.replay(pool, walk, **settings).frames[-1]


def test_a_right_pool_reads_back_what_was_written():
    table = PageTable.replay(Pool, WALK)
    assert len(table.frames) == 1 + 6 + 4
    assert not any(any(frame["wrong"].values()) for frame in table.frames)
    assert [frame["copied"] for frame in table.frames if frame["copied"]] == [[6, 5]]
    assert table.frames[-1]["lengths"] == {"B": 7}
    table.step = 9
    assert "step 9 of 10: append('B') gives (6, 2, None)" in table.to_table()


def test_tokens_that_were_overwritten_or_not_copied_are_marked():
    assert last(NeverCopies, WALK[:4])["wrong"] == {"A": [6], "B": []}
    assert last(ForgetsToCopy, WALK[:4])["wrong"] == {"A": [4, 5], "B": []}
    table = PageTable.replay(NeverCopies, WALK[:4])
    table.step = 9
    assert "A: 7 tokens on pages 7, 6; 1 of its tokens are not its own" in table.to_table()


def test_a_full_pool_is_no_error_and_what_goes_wrong_is_said():
    full = last(Pool, [("append", "A", 5), ("free", "A")], n_pages=1)
    assert (full["says"], full["error"], full["lengths"]) == ("free('A')", "", {})
    assert last(Raises)["error"] == "KeyError: 'no idea'"
    assert "append gave None, not (page, slot, copy_from)" in last(Strange)["error"]
    assert last(LosesTheFull, [("append", "A", 5)], n_pages=1)["error"] == "KeyError: 'A'"
    assert "table('A') is [99], but there are 8 pages" in last(OutOfRange)["error"]


# In the browser -----------------------------------------------------------------------------------


def press(page: Any, title: str, *, right: int = 0) -> None:
    """Press the handle of this title, and drag it to the right."""
    box = page.locator("rect", has=page.get_by_text(title, exact=True)).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    if right:
        page.mouse.move(x + right, y, steps=5)
    page.mouse.up()


def frame_of(page: Any) -> dict[str, Any]:
    return page.evaluate("facModel.get('frame')")


@pytest.mark.browser
def test_requests_grow_fork_and_end_by_a_press_in_the_picture(mount, check_page):
    page = mount(PageTable(lengths=(5, 32), reserve=64), width=480, reduced=True)
    check_page(page)
    press(page, "press: a token more for B; drag: more of them")
    assert frame_of(page)["tables"] == {"A": [0], "B": [1, 2, 3]}
    assert frame_of(page)["wrote"] == ["B", 3, 0]
    press(page, "choose A")
    press(page, "fork A")
    assert frame_of(page)["tables"]["C"] == [0]
    press(page, "press: a token more for C; drag: more of them")
    title = page.inner_text(".fac-finding")
    assert title == "C shared page 0 with A. To write, it got a copy: page 4"
    assert page.locator(".fac-pages-was").text_content() == "page 0 until now", "C's table"
    assert page.locator(".fac-pages-changed").get_attribute("data-page") == "4"
    assert page.locator(".fac-pages-copy").count() == 1
    press(page, "choose A")
    press(page, "end A")
    assert set(frame_of(page)["tables"]) == {"B", "C"}
    press(page, "choose C")
    before = frame_of(page)["lengths"]["C"]
    press(page, "press: a token more for C; drag: more of them", right=60)
    assert frame_of(page)["lengths"]["C"] > before + 3
    check_page(page)


@pytest.mark.browser
def test_another_page_size_lays_the_same_operations_anew(mount):
    """Python is told, so its words and numbers follow the picture."""
    page = mount(PageTable(lengths=LENGTHS, reserve=1024, chosen="A"), reduced=True)
    for size, pages, empty in ((1, 754, 0), (64, 14, 142)):
        box = page.get_by_label("slots per page").nth(1)
        box.fill(str(size))
        box.press("Enter")
        held = f"{empty} of {pages * size} are empty"
        assert held in page.locator(".fac-stage").text_content()
        assert frame_of(page)["page_size"] == size
        outline = page.locator(".fac-pages-mine").get_attribute("d")
        assert outline.count("M") == 1  # A's five pages of 1 share one, or it would hide them


@pytest.mark.browser
def test_the_edge_of_a_page_is_its_size(mount):
    page = mount(PageTable.example("copy"), width=900, reduced=True)
    box = page.locator(".fac-knob").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    left = page.locator(".fac-pages-measure").bounding_box()["x"]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(left + (x - left) / 4, y, steps=4)
    page.mouse.up()
    assert page.evaluate("facModel.get('page_size')") == frame_of(page)["page_size"] == 4


@pytest.mark.browser
def test_a_full_memory_says_so_and_changes_nothing(mount):
    page = mount(PageTable(lengths=(32, 32), reserve=32, chosen="A"), reduced=True)
    page.get_by_text("more: ").click()
    page.get_by_role("button", name="Append a token").click()
    assert "No page is free" in page.inner_text(".fac")
    assert frame_of(page)["lengths"] == {"A": 32, "B": 32}
    page.get_by_role("button", name="End", exact=True).click()
    page.get_by_role("button", name="Append a token").click()
    assert "No page is free" not in page.inner_text(".fac")
    assert frame_of(page)["lengths"] == {"B": 33}


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_filled_slots_take_the_area_that_they_take_of_the_memory(mount, width):
    page = mount(PageTable(lengths=LENGTHS, reserve=1024), width=width, reduced=True)
    boxes = page.locator(".fac-pages-slots").evaluate_all(
        "ns => ns.map(n => n.getBBox()).map(b => [b.width, b.height])"
    )
    tall = boxes[0][1]
    across = page.locator(".fac-pages-edges").last.evaluate("n => n.getBBox().width") / 512
    filled = sum(w * h for w, h in boxes)
    assert filled == pytest.approx(754 * across * tall, rel=0.01)
    of = "ns => ns.map(n => n.getBBox()).map(b => b.width * b.height).reduce((a, b) => a + b)"
    share = page.locator(".fac-pages-share").evaluate_all(of)  # in one block each, to that scale
    assert share == pytest.approx(754 * across * tall, rel=0.01)
    waste = "[...document.querySelectorAll('rect.fac-waste')].filter(n => n.textContent"
    slots = page.evaluate(f"{waste}.includes('slot')).map(n => n.getBBox().width)")
    assert sum(slots) == pytest.approx(3342 * across, rel=0.01)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_arrow_of_a_copy_goes_from_slot_0_to_slot_0(mount, width):
    """B's 17th token, the one in the shared page, is what was copied: slot 0, of 16."""
    page = mount(PageTable.example("copy", chosen="B"), width=width, reduced=True)
    path = page.locator(".fac-pages-copy").get_attribute("d")
    ends = [float(x) for x in re.findall(r"[MH]([\d.]+)", path)]
    pages = page.locator(".fac-pages-mine").get_attribute("d")  # B's: 3 and 4, which begins a row
    wide, left = float(re.search(r"h([\d.]+)", pages)[1]), float(re.findall(r"M([\d.]+)", pages)[1])
    assert ends == pytest.approx([left + wide / 32, left + wide + wide / 32], abs=1)


@pytest.mark.browser
def test_narrow_pages_say_whose_they_are_and_their_numbers_stand_beside_them(mount):
    """The letters stand outside the slots, which are few; what is free says how much."""
    for width in (480, 1280):
        page = mount(
            PageTable(lengths=LENGTHS, reserve=1024), width=width, reduced=True, again=True
        )
        letters = page.locator(".fac-stage text").all_text_contents()
        assert [letters.count(name) for name in "ABCD"] == [2] * 4, "in a block; above its pages"
        assert any("207 pages free" in text for text in letters)
    narrow = page.locator(".fac-pages-slots").evaluate_all("ns => ns.map(n => n.getBBox().width)")
    assert min(narrow) >= 3
    numbers = page.locator(".fac-stage .fac-t-soft").all_text_contents()
    assert {"page", "0", "4", "8", "page 32", "page 64"} <= set(numbers)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_chosen_request_is_outlined_in_its_table_and_the_arrow_lies_on_no_page(mount, width):
    page = mount(PageTable.example("copy", chosen="B"), width=width, reduced=True)
    assert page.locator(".fac-pages-own").count() == 2, "its cells; its pages have the same outline"
    page.locator(".fac-stage title", has_text="choose D").locator("..").click()
    assert page.evaluate("facModel.get('chosen')") == "D"
    lane = float(re.search(r"V([\d.]+)H", page.locator(".fac-pages-copy").get_attribute("d"))[1])
    rows = page.locator(".fac-pages-edges").evaluate_all("ns => ns.map(n => n.getAttribute('d'))")
    for top, tall in re.findall(r"M[\d.]+ ([\d.]+)h[\d.]+v([\d.]+)h", "".join(rows)):
        assert not float(top) <= lane <= float(top) + float(tall)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_title_says_what_the_same_slots_have_left_and_follows_the_size_of_a_page(mount, width):
    """That both sides hold the same slots is the point, and was said nowhere."""
    page = mount(PageTable(lengths=LENGTHS, reserve=1024), width=width, reduced=True)
    title = page.locator(".fac-finding")
    said = "The same 4096 slots: pages have {} free for a new request, blocks are full"
    assert title.inner_text() == said.format(4096 // 16 - 49)
    page.get_by_label("slots per page").first.press("End")
    assert title.inner_text() == said.format(4096 // 64 - 14)
    assert page.locator(".fac-pages-result").all_text_contents() == ["16 %", "82 %"]


OVERLAPS = """() => { const of = [...document.querySelectorAll('.fac-stage text')]
  .filter((t) => t.textContent.trim()).map((t) => [t.textContent, t.getBoundingClientRect()]);
  return of.flatMap(([a, p], i) => of.slice(i + 1).filter(([, q]) => p.left < q.right - 1 &&
    q.left < p.right - 1 && p.top < q.bottom - 4 && q.top < p.bottom - 4)
    .map(([b]) => [a, b])); }"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize(
    "settings", [{}, {"lengths": LENGTHS, "reserve": 1024}, EXAMPLES["copy"], EXAMPLES["fork"]]
)
@pytest.mark.few(3)
def test_no_word_lies_on_another(mount, width, settings):
    page = mount(PageTable(**settings), width=width, reduced=True)
    assert page.evaluate(OVERLAPS) == []
    ends = page.locator(".fac-stage text").evaluate_all(
        "ns => ns.map(n => n.getBoundingClientRect()).flatMap(b => [b.left, b.right])"
    )
    assert min(ends) >= 0, "nor is one cut"
    assert max(ends) <= width


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_shared_page_is_marked_in_every_table_and_what_was_copied_is_counted(mount, width):
    """D's and B's 3 is one page: a page in a table looks as it does in memory."""
    page = mount(PageTable.example("copy"), width=width, reduced=True)
    hues = page.locator(".fac-pages-mini").evaluate_all("ns => ns.map(n => n.classList[1])")
    shared = ["fac-pages-1", "fac-pages-3"]
    assert hues == ["fac-pages-0"] * 2 + [*shared, "fac-pages-1", "fac-pages-2", *shared, shared[1]]
    copies = page.locator(".fac-pages-copies")
    assert copies.all_text_contents() == ["1 slot copied"] * 2
    across = page.locator(".fac-pages-edges").last.evaluate("n => n.getBBox().width") / 4
    for copied in copies.all():
        assert copied.evaluate("n => n.getBBox().width") == pytest.approx(across / 16 + 3, abs=0.5)


@pytest.mark.browser
def test_a_replay_walks_and_marks_what_is_wrong(mount, check_page):
    page = mount(PageTable.replay(NeverCopies, WALK[:4]), reduced=True)
    assert page.locator(".fac-pages-chip").count() == 0
    for _ in range(9):
        assert page.locator(".fac-pages-wrong").count() == 0
        page.get_by_role("button", name="Next").click()
    assert page.locator(".fac-pages-wrong").count() == 1
    assert "A 1 wrong" in page.locator(".fac-stage").text_content()
    check_page(page)
    page = mount(PageTable.replay(Raises, WALK))
    page.locator(".fac-seek").press("End")
    assert "KeyError: 'no idea'" in page.inner_text(".fac")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_what_is_held_of_all_slots_is_as_long_either_way_and_the_rest_is_free(mount, width):
    """160 and 256 slots were bars of one length: the free pages, which are the point, had none."""
    page = mount(PageTable(lengths=(5, 17, 32, 700), reserve=1024), width=width, reduced=True)
    said = page.locator(".fac-stage text").all_text_contents()
    assert page.locator(".fac-pages-result").all_text_contents() == ["3.8 %", "82 %"]
    size = page.locator(".fac-pages-result").first.evaluate("n => getComputedStyle(n).fontSize")
    assert float(size.removesuffix("px")) >= 24
    long = {
        title: page.locator(".fac-stage rect > title", has_text=re.compile(f"^{title}$"))
        .last.locator("..")
        .evaluate("n => n.getBBox().width")
        for title in (
            "4096 slots", "784 slots held", "4096 slots held", "754 slots in use",
            "30 of 784 are empty", "3342 of 4096 are empty",
        )
    }  # fmt: skip
    scale = long["4096 slots held"]
    for says, width_ in long.items():
        assert width_ == pytest.approx(scale * int(says.split()[0]) / 4096, rel=0.01), says
    chips = page.locator(".fac-stage .fac-t-chip").all_text_contents()
    assert not any(" of " in text for text in chips), "no pill lies on the end that it tells"
    assert {"30 of 784", "3342 of 4096"} <= set(said), "each bar says of how many"
    assert said.count("207 pages free") == 2, "below its pool, and in the bar"
    assert {"4096 slots, pages of 16", "4096 slots, blocks of 1024"} <= set(said)


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_request_that_pages_take_and_blocks_refuse_stands_before_their_pool(mount, width):
    page = mount(PageTable(chosen="C"), width=width, reduced=True)
    size = "ns => ns.map(n => [n.getBBox().width, n.getBBox().height].map(Math.round))"
    pools = page.locator(".fac-pages-pool")
    assert pools.all_text_contents() == ["256 slots"] * 2
    in_pages, in_blocks = pools.evaluate_all(size)
    assert in_pages[0] == in_blocks[0], "a slot is as wide in both"
    assert in_blocks[1] < 0.75 * in_pages[1]
    assert "6 free for a new request, blocks are full" in page.inner_text(".fac-finding")
    assert page.locator(".fac-pages-refused").count() == 0
    press(page, "a new request")
    assert frame_of(page)["tables"]["E"] == [10]
    assert "blocks have no room for E" in page.inner_text(".fac-finding")
    refused = page.locator(".fac-pages-refused").bounding_box()
    pool = pools.last.bounding_box()
    assert refused["y"] >= pool["y"] + pool["height"] - 2
    text = page.locator(".fac-stage").text_content()
    assert "✗ full: E must wait for 64 slots" in text
    assert "117 of 256 are empty" in text, "no more than there are"
    press(page, "choose A")
    press(page, "end A")
    assert page.locator(".fac-pages-refused").count() == 0, "E has A's block"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_table_and_a_page_show_the_same_number_and_lines_lead_from_the_chosen_one_alone(
    mount, width
):
    """Lines of all requests lay on other pages; then only numbers of two kinds led there."""
    page = mount(PageTable(chosen="B"), width=width, reduced=True)
    chips = "ns => ns.filter(n => n.tagName === 'text').map(n => n.textContent)"
    tables = frame_of(page)["tables"]
    held = [str(number) for table in tables.values() for number in table]
    said = page.locator(".fac-stage .fac-t-chip").evaluate_all(chips)
    assert sorted(text for text in said if text.isdigit()) == sorted(2 * held)
    free = page.locator(".fac-stage .fac-t-soft").all_text_contents()
    assert set(map(str, range(16))) - set(held) <= set(free), "a free page has its number too"
    for name in ("B", "C"):
        page.locator(".fac-stage title", has_text=f"choose {name}").first.locator("..").click()
        own = page.locator(".fac-stage text.fac-pages-own-chip").all_text_contents()
        assert sorted(own) == sorted([*2 * list(map(str, tables[name])), name])
        way = page.locator(".fac-pages-way").get_attribute("d")
        boxes = page.locator(".fac-pages-slots").evaluate_all(
            "ns => ns.map((n) => { const b = n.getBBox(); return [+n.dataset.page, b.x, b.y]; })"
        )
        wide, tall = page.locator(".fac-pages-slots").first.evaluate(
            "n => { const b = n.getBBox(); return [b.width, b.height]; }"
        )
        ends, at = [], (0.0, 0.0)
        for what, first, second in re.findall(r"([MHV])([\d.]+) ?([\d.]+)?", way):
            to = {"M": (first, second), "H": (first, at[1]), "V": (at[0], first)}[what]
            to = (float(to[0]), float(to[1]))
            for number, x, y in boxes if what != "M" else ():
                low, high = sorted((at[1], to[1]))
                near, far = sorted((at[0], to[0]))
                over = near < x + wide and far > x and low < y + tall and high > y
                assert not over, f"the way to {name} lies on page {number}"
            ends.append(to)
            at = to
        for number, x, y in boxes:
            reached = any(0 < a - x < wide and 0 < y - b < 3 for a, b in ends)
            assert reached == (number in tables[name]), f"page {number}"


@pytest.mark.browser
def test_a_place_of_a_table_and_its_page_light_each_other(mount):
    page = mount(PageTable(chosen="B"), width=1280, reduced=True)
    lit = page.locator("path.fac-pages-lit")
    assert lit.count() == 0
    page.locator(".fac-pages-cell").first.hover(position={"x": 3, "y": 3})
    corner = "n => (b => [b.x, b.y])(n.getBBox())"
    slots = page.locator('.fac-pages-slots[data-page="2"]').evaluate(corner)
    assert lit.evaluate(corner) == pytest.approx(slots, abs=0.5)
    page.locator('.fac-pages-slots[data-page="7"]').hover(position={"x": 3, "y": 3})
    assert page.locator(".fac-pages-cell.fac-pages-lit").get_attribute("data-page") == "7"
    page.locator(".fac-finding").hover()
    page.wait_for_function("!document.querySelector('.fac-pages-lit')")


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_copy_is_the_change_of_one_place_of_one_table(mount, width):
    page = mount(PageTable.example("copy"), width=width, reduced=True)
    changed = page.locator(".fac-pages-changed")
    assert changed.count() == 1
    assert changed.get_attribute("data-page") == "5"
    old, new = page.locator(".fac-pages-was").bounding_box(), changed.bounding_box()
    assert page.locator(".fac-pages-struck").count() == 1, "what the table said before"
    assert 0 < new["x"] - old["x"] - old["width"] < 10
    assert new["y"] == pytest.approx(old["y"], abs=3), "both in the row"
    words = [text for text in page.locator(".fac-stage text").all() if text.text_content() == "4"]
    assert any(0 < text.bounding_box()["x"] - old["x"] < old["width"] for text in words)


@pytest.mark.browser
def test_the_newest_token_keeps_its_owner_s_colour(mount):
    page = mount(PageTable(), reduced=True)
    assert page.locator(".fac-pages-tip").count() == 1
    says = "page 3 is shared, and counted once"
    for width in (480, 1280):
        page = mount(PageTable.example("copy"), width=width, reduced=True, again=True)
        said = page.locator(".fac-stage text", has_text=says)
        box = said.bounding_box()
        assert box["x"] + box["width"] <= width, "not cut"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_the_newest_token_is_pointed_at_and_not_ringed_beside_the_ring_of_a_copy(mount, width):
    page = mount(PageTable.example("copy", chosen="D"), width=width, reduced=True)
    wrote = frame_of(page)["wrote"]
    box = "n => (b => [b.x, b.width, b.y, b.height])(n.getBBox())"
    x, w, y, h = page.locator(".fac-pages-tip").evaluate(box)
    left, _, top, _ = page.locator(f'.fac-pages-slots[data-page="{wrote[1]}"]').evaluate(box)
    cell = page.locator(".fac-pages-copies").first.evaluate(box)[1] - 3
    assert x + w / 2 == pytest.approx(left + (wrote[2] + 0.5) * cell, abs=1)
    assert y + h <= top, "the colour of its owner, and the head of the copy's arrow, are to be seen"
    way = page.locator(".fac-pages-way")
    assert way.count() == 1, "the line from the table to its pages"
    assert way.evaluate("n => getComputedStyle(n).stroke") != "none", "in its request's colour"


@pytest.mark.browser
def test_what_is_held_for_nothing_is_paler_than_the_data_in_the_dark_and_e_is_not_a(mount):
    """In the dark it was as strong as they; and A and E were two blues."""
    page = mount(PageTable(chosen="C"), width=1280, reduced=True, dark=True)
    waste = page.locator("path.fac-waste").evaluate("n => getComputedStyle(n).fill")
    red, green, blue = map(float, re.findall(r"[\d.]+", waste)[:3])
    assert red == pytest.approx(green, abs=0.01)
    assert green == pytest.approx(blue, abs=0.01), "no hue: orange is S"
    assert 0.07 < red - 17 / 255 < 0.2, "seen, and paler than the data"
    *others, e, _ = [
        [int(hue[i : i + 2], 16) for i in (1, 3, 5)]
        for hue in re.findall(r"fac-pages-\d { --hue: (#\w{6})", str(PageTable._css))
    ]
    assert len(others) == 4
    assert min(sum((a - b) ** 2 for a, b in zip(e, one, strict=True)) for one in others) > 60**2


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_a_line_leads_from_each_place_of_the_table_and_a_copy_moves_nothing(mount, width):
    """One line for all pages did not tell which is which; the pool grew when a copy was shown."""
    tall = []
    for pages in (PageTable(chosen="B"), PageTable.example("copy", chosen="B")):
        page = mount(pages, width=width, reduced=True, again=True)
        places = page.locator(".fac-pages-own")
        cells = places.evaluate_all("ns => ns.map(n => n.getBBox().x + n.getBBox().width / 2)")
        way = page.locator(".fac-pages-way").get_attribute("d")
        assert [float(x) for x in re.findall(r"M([\d.]+)", way)] == pytest.approx(cells, abs=1)
        pool = page.locator(".fac-pages-pool").first.evaluate("n => n.getBBox().height")
        tall.append(round(pool))
    assert tall[0] == tall[1]
    if width == 1280:
        slot = page.locator(".fac-pages-copies").first.evaluate("n => n.getBBox().width - 3")
        assert slot > 11, "the slot that was copied is to be seen"


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 1280])
def test_one_of_the_lines_is_told_by_its_width_and_its_ends(mount, width):
    """Hairlines side by side cannot be told apart: the page that is pointed at, else the newest."""
    page = mount(PageTable(chosen="B"), width=width, reduced=True)
    style = "(n, name) => parseFloat(getComputedStyle(n)[name])"
    told, faint = page.locator(".fac-pages-way-told"), page.locator(".fac-pages-way")
    ends = page.locator(".fac-pages-way-end")

    def leads_to(number):
        """It begins and ends with a mark, at that place of the table and at that page."""
        place = frame_of(page)["tables"]["B"].index(number)
        assert told.get_attribute("data-place") == str(place)
        assert told.get_attribute("d") in faint.get_attribute("d")
        box = "n => (b => [b.x, b.y, b.width, b.height])(n.getBBox())"
        x, y, w, _ = page.locator(f'.fac-pages-slots[data-page="{number}"]').first.evaluate(box)
        first, last = ends.evaluate_all(
            "ns => ns.map(n => [+n.getAttribute('cx'), +n.getAttribute('cy')])"
        )
        at = page.locator(".fac-pages-own").nth(place).evaluate(box)
        assert at[0] < first[0] < at[0] + at[2]
        assert x < last[0] < x + w * 16
        assert 0 < y - last[1] < 8

    leads_to(8)
    assert told.evaluate(style, "strokeWidth") >= 2.5 * faint.evaluate(style, "strokeWidth")
    assert faint.evaluate(style, "strokeOpacity") < 0.5
    page.locator(".fac-pages-own").first.hover(position={"x": 3, "y": 3})
    leads_to(3)
    page.locator('.fac-pages-slots[data-page="7"]').hover(position={"x": 3, "y": 3})
    leads_to(7)


@pytest.mark.browser
def test_two_pages_of_one_owner_are_further_apart_than_two_slots(mount):
    page = mount(PageTable.example("copy"), width=1280, reduced=True)
    style = "n => parseFloat(getComputedStyle(n).strokeWidth)"
    seams, ticks = page.locator(".fac-pages-seams"), page.locator(".fac-pages-ticks")
    assert seams.evaluate(style) >= 4 * ticks.evaluate(style)
    box = "n => (b => b.x + b.width)(n.getBBox())"
    end = page.locator('.fac-pages-slots[data-page="0"]').evaluate(box)
    at = [float(x) for x in re.findall(r"M([\d.]+)", seams.get_attribute("d"))]
    assert any(x == pytest.approx(end, abs=0.2) for x in at), "A has the pages 0 and 1"
