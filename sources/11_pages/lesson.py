# %% title [markdown]
# # 11 · Pages: where is not how
#
# **You need:** lesson 03 (piles and their merge), lesson 04 (the flat memory that counts), lesson
# 10 (decode and its cache). No GPU.
# (macOS and Windows: kernels are interpreted, and compiled when graded.)
#
# **You will be able to:** say what a request's cache costs, and how much of reserved room stays
# empty; follow a table of pages to a key; say what pages change and what they do not; count pages
# and copies when a text gets several answers; ask of a claimed speed-up: against what?
#
# **Time:** 62 minutes for this lesson, 100 for its exercises, and 20 more for 11★.

# %% question [markdown]
# ## The question
#
# Lesson 10 kept K and V of earlier tokens in a cache. It had room for the longest text that could
# come, and most texts are shorter. A server keeps many such caches, one for each **request** (one
# user's text), beside the weights of its model. When its memory is full, the next user waits.
#
# How much of that memory holds a token? And if tokens are stored here and there, wherever room is
# free: must attention be computed in another way?
#
# **Where do the keys lie, and does the kernel care?**

# %% imports
import numpy as np

from course_lib import Predict, Quiz
from course_lib.accounting import decode_traffic as model
from course_lib.accounting.memory import FlatMemory
from course_lib.attention import OnlineState
from course_lib.figures import pages as measured
from course_lib.style.table import Table
from course_lib.widgets import PageTable

# %% predict-70b
p_70b = Predict(
    "11-70b",
    "A model of 70 billion weights: 80 layers, 8 K/V heads, head dimension 128, 2 bytes a number. "
    "One text of 100,000 tokens. How large is its cache?",
    unit="GB",
)
p_70b

# %% cache-70b
shape = {"layers": 80, "kv_heads": 8, "d": 128, "b": 2}  # b: bytes a number
a_token = 2 * 80 * 8 * 128 * 2  # K and V, layers, heads, numbers, bytes
cache = model.cache_bytes(100_000, **shape)
print(f"a token {a_token:,} bytes, 100,000 tokens {cache / 1e9:.1f} GB")
print(f"the weights {70e9 * 2 / 1e9:.0f} GB")

# %% reveal-70b
p_70b.reveal(
    cache / 1e9,
    "K and V, for each layer, K/V head and token. Nearly a quarter of the weights, for one user.",
)

# %% kinds [markdown]
# ## Three kinds of help
#
# Many ideas help a server with that memory. Of each, ask what *kind* it is:
#
# - A **kernel** says *how* attention is computed: in which order, and what is never written down.
# - A **layout** says *where* K and V lie in memory.
# - A **policy** says *who*: which request comes next, whose tokens stay, what is kept for later.
#
# FlashAttention is a kernel. This lesson is about a layout, and policies that it makes easy.

# %% predict-flash
p_flash = Predict(
    "11-flash",
    "A server of that model turns FlashAttention on. What stays as it was?",
    options=[
        "the size of the cache, and where it lies",
        "the peak memory of a prefill",
        "the time of a long prefill",
    ],
)
p_flash

# %% reveal-flash
p_flash.reveal(
    "the size of the cache, and where it lies",
    "K and V are what it reads. What it never writes, S and P, was never in the cache.",
)

# %% picture [markdown]
# ## The picture: a loose-leaf binder
#
# **Bound notebooks.** Four people dictate to you, and nobody says how much it will be. So you buy
# four notebooks of 1024 lines. One of the four dictates 5 lines: 1019 lines stay empty.
#
# **A loose-leaf binder.** You buy one stack of loose sheets with 16 lines each. Whoever dictates
# gets a sheet. When it is full, he gets the next one from the stack, whichever that is. On a card
# you note, for each person, the numbers of his sheets *in order*. You read his text by the card:
# sheet 3, then 0, then 8. When he leaves, his sheets go back to the stack.
#
# | binder | server |
# |---|---|
# | a line | a **slot**: room for K and V of one token |
# | a sheet | a **page** of `page_size` slots (vLLM, a serving library, says *block*) |
# | the stack | the **pool** of pages |
# | a person's card | the request's **table**, or *block table*: its pages in order |
#
# The text is the same, whichever sheets it stands on, and you read it as before: from the first
# line to the last. **Where is not how.**

# %% by-hand [markdown]
# ## A number by hand: four requests
#
# They have 5, 17, 32 and 700 tokens so far: 754. In bound notebooks, each has 1024 slots.

# %% predict-reserved
p_reserved = Predict(
    "11-reserved",
    "1024 slots for each of the four. What share of them is empty?",
    unit="%",
    most=100,
)
p_reserved

# %% reserved-run
lengths = np.array([5, 17, 32, 700])  # (4,) tokens of each request
reserved = 4 * 1024
empty = reserved - lengths.sum()
print(f"{reserved} slots reserved, {lengths.sum()} used, {empty} empty")

# %% reveal-reserved
p_reserved.reveal(
    100 * empty / reserved,
    "Not an odd example: in the systems that Kwon and others measured (2023, figure 2), 20 to "
    "38 % of the cache's memory held a token. The rest, 62 to 80 %, held none.",
)

# %% predict-waste
p_waste = Predict(
    "11-waste",
    "Now pages of 16. A fifth request has some 100,000 tokens, and grows. How many slots of its "
    "pages may be empty, at most?",
    unit="slots",
)
p_waste

# %% pages-by-hand [markdown]
# For our four, in your head: how many pages of 16 do 5, 17, 32 and 700 tokens take, and how many
# of their slots are empty?

# %% page-sizes
rows = []
for page_size in (1, 16, 64, 256, 1024):
    pages = -(-lengths // page_size)  # (4,) rounded up
    slots = pages.sum() * page_size
    rows.append((page_size, pages.sum(), slots - lengths.sum(), 1 - 754 / slots, 4 * pages.sum()))
columns = ("page size", "pages", "empty slots", "empty", "bytes of the tables")
Table(columns, rows, {"empty": ".1%", "empty slots": ","}, {"empty": "other"},
      finding="The larger the page, the emptier: a page of 1024 is a bound notebook",
      note="By formula. An entry of a table, the number of a page, takes 4 bytes.")  # fmt: skip

# %% pages-check [markdown]
# In the row of 16: 1 + 2 + 2 + 44 pages, and 11 + 15 + 0 + 4 empty slots, all in *last* pages.

# %% reveal-waste
p_waste.reveal(
    15,
    "Only the last page has empty slots: page_size − 1 at most. Waste grows with the number of "
    "requests, not with their tokens.",
)

# %% sizes-say [markdown]
# So why not pages of one slot, where nothing is empty? Look at the last column: the tables grow.
# They take little room: a slot of the model above has 327,680 bytes, an entry 4. What look-ups
# cost in time is measured below. (vLLM's authors tried several sizes on their server and chose 16:
# Kwon and others, section 7.2.)
#
# What is the room good for? Other requests. Memory for 4096 slots, and requests like our four:

# %% fit-run
per_request = 49 * 16 / 4  # 49 pages of 16 hold the four
print(f"reserved: {4096 // 1024} requests fit")
print(f"paged:    {4096 // per_request:.0f} requests like these fit")

# %% fit-say [markdown]
# Five times as many requests can decode together. The *weights* are read once a step for all of
# them (lesson 10). That is what pages buy.
#
# Below are four other requests, which grew in turns: their tables, and [one
# memory](#fac-pages-memory) of 256 slots twice, in pages and with a block of 64 for each. A page
# came from wherever one was free, so a request's pages lie apart.
#
# 1. C has 32 tokens. What will one more token take? Press *+ 1 token*.
# 2. Drag [the page size](#fac-pages-size) from 16 to 64, and to 1. Where does waste appear?

# %% pages-widget
PageTable(chosen="C")

# %% grow-say [markdown]
# It took a whole page for one token; the next 15 tokens take none. Lesson 10's sentence gets a
# third part: a cache grows by **rows**, is kept in **pages**, and is read by **tiles**. Pages and
# tiles may have any sizes: neither needs to be a multiple of the other.

# %% read-heading [markdown]
# ## Follow the table
#
# Where is token 20 of a request, with pages of 16? (All counts begin at 0.) 20 // 16 = 1: on the
# sheet that entry 1 of its card names, say page 7. 20 % 16 = 4: in slot 4 of that page. So it lies
# in row 7 · 16 + 4 = 116 of the memory.
#
# Below is lesson 10's decode step, on the flat memory of lesson 04, which counts what is read. It
# gets one more argument: `where`, a function that says in which row of memory a token lies.
# Nothing else in the loop knows of pages.
#
# (`OnlineState` is the sticky note, as there.)


# %% decode-step
def decode_step(memory, q, length, where, block=128):
    """One query, q (d,), over `length` cached tokens; where(i) is the row of token i."""
    state = OnlineState.identity((), len(q))
    for start in range(0, length, block):
        i = np.arange(start, min(start + block, length))  # the tokens of this tile
        at = where(i)[:, None] * len(q) + np.arange(len(q))  # (rows, d): their addresses
        k = memory.load(memory.offset("k") + at)  # (rows, d)
        v = memory.load(memory.offset("v") + at)
        state = state.merge(OnlineState.from_tile(k @ q / np.sqrt(len(q)), v))
    return state.finalize()[0]  # (d,)


# %% two-memories-text [markdown]
# One text of 700 tokens, d = 64, kept twice: in one piece, and on 44 of 60 pages that were drawn
# by lot. Slots that belong to nobody hold NaN: whoever reads one will see it.

# %% two-memories
rng = np.random.default_rng(11)
n, d, size = 700, 64, 16
q, k, v = rng.normal(size=d), rng.normal(size=(n, d)), rng.normal(size=(n, d))
table = rng.permutation(60)[: -(-n // size)]  # (44,) of 60 pages
home = table[np.arange(n) // size] * size + np.arange(n) % size  # (n,) each token's row

bound, loose = FlatMemory(), FlatMemory()  # 4 bytes a number
for name, rows in (("k", k), ("v", v)):
    scattered = np.full((60 * size, d), np.nan)
    scattered[home] = rows
    bound.place(name, rows)
    loose.place(name, scattered)
loose.place("table", table)
print("the table begins", table[:6].tolist())

# %% predict-same
p_same = Predict(
    "11-same",
    "The same step, once on the memory in one piece, once through the table. The two outputs are",
    options=["equal in every bit", "equal up to rounding", "different: the order of keys changed"],
)
p_same


# %% through-the-table
def in_one_piece(i):
    """Token i lies in row i."""
    return i


def through_the_table(i):
    """Read the entries of the tile's pages, once each; then every token knows its row."""
    entries = np.arange(i[0] // size, i[-1] // size + 1)
    page = loose.load(loose.offset("table") + entries).astype(int)
    # page[0] belongs to the tile's first entry, so count from there
    return page[i // size - entries[0]] * size + i % size


o_bound = decode_step(bound, q, n, in_one_piece)
o_loose = decode_step(loose, q, n, through_the_table)
print("numbers that differ:", np.count_nonzero(o_bound != o_loose))

# %% reveal-same
p_same.reveal(
    "equal in every bit",
    "The tiles hold the same rows in the same order, so the same operations are done on the same "
    "numbers. Only the addresses differ.",
)

# %% predict-traffic
p_traffic = Predict(
    "11-traffic",
    "And what was read? Through the table the step reads, of K and V,",
    options=[
        "less: there is less empty memory",
        "as many bytes as in one piece, and the table",
        "more: whole pages, with their empty slots",
    ],
)
p_traffic

# %% traffic-run
names = {"in one piece": bound, "through the table": loose}
rows = [(says, m.read["k"], m.read["v"], m.read["table"]) for says, m in names.items()]
rows.append(("by formula", n * d * 4, n * d * 4, -(-n // size) * 4))
Table(("one decode step", "K", "V", "table"), rows, dict.fromkeys(("K", "V"), ","),
      note="Bytes read, 4 a number, counted; 700 tokens, d = 64, pages of 16, tiles of 128.")  # fmt: skip

# %% reveal-traffic
p_traffic.reveal(
    "as many bytes as in one piece, and the table",
    "700 rows of K and V, either way. Reserved slots that nobody fills were never read. The table "
    "adds 4 bytes a page.",
)

# %% traffic-say [markdown]
# So **pages save room, not traffic.** (One table serves all layers and heads: page 7 is page 7 in
# each of them.)
#
# ### And the time?
#
# The same bytes, but from scattered addresses, with a look-up before each load. We timed it on an
# H100: the course's decode kernel on one piece, and on pages shuffled all over the pool. There it
# looks up an entry for each *key*, whatever the page size. The most scattered case: pages of 1.

# %% predict-paged
p_paged = Predict(
    "11-paged",
    "One request of 65,536 tokens on pages of 1, 8 K/V heads, d = 128. How much longer than from "
    "one piece does a step of the kernel take?",
    unit="%",
)
p_paged

# %% paged-run folded=true
# @title A table: the same keys, in one piece and in pages
measured.paged_times()

# %% reveal-paged
p_paged.reveal(
    100 * measured.longer(1, 65536, 8, 1),
    "The largest of the sixteen differences in the table.",
)

# %% paged-say [markdown]
# The paper on PagedAttention (Kwon and others, 2023) reports more: its paged kernel took 20 to 26 %
# longer than FasterTransformer's (NVIDIA's library of that time; section 7.1). *Against what?* Theirs
# are two different kernels, on an older GPU; ours is one kernel, with and without a table. And *why*
# it takes longer, where it does, our clock does not say.

# %% gather-heading [markdown]
# ### Or first make it one piece?
#
# You have a good decode kernel for a cache in one piece. So you copy the pages into one piece
# first, and call it. The answer is right.

# %% predict-gather
p_gather = Predict(
    "11-gather",
    "Copy K's pages into one piece, then read that. How many times do the bytes of K travel?",
    unit="times",
    least=1,
)
p_gather

# %% gather-run
copied = FlatMemory()
copied.place("k", loose.array("k"))
copied.place("piece", np.zeros((n, d)))
columns = np.arange(d)
rows_of_k = copied.load(copied.offset("k") + home[:, None] * d + columns)  # 1: the pages, read
piece_at = copied.offset("piece") + np.arange(n)[:, None] * d + columns
copied.store(piece_at, rows_of_k)  # 2: the copy, written
copied.load(piece_at)  # 3: the copy, read by the kernel
moved = copied.read["k"] + copied.written["piece"] + copied.read["piece"]
print(f"{moved:,} bytes for a K of {k.astype(np.float32).nbytes:,}")

# %% reveal-gather
p_gather.reveal(
    moved / k.astype(np.float32).nbytes,
    "Read, written, read: three times the bytes, in a step that waits for bytes. A paged kernel "
    "looks up the address first, and then loads the tile from where it lies.",
)

# %% four-steps [markdown]
# ## How they work together, in four steps
#
# One step of a server, for all requests that decode:
#
# 1. The **scheduler** picks the requests of this step, and makes sure that each has a slot for its
#    next token. (*Who*: lesson 12.)
# 2. The **table** says where their pages are. (*Where.*)
# 3. The **kernel** reads the entries, then the tiles, and folds them with the online softmax.
#    (*How.*)
# 4. The model goes on, a token is **sampled** from its output and appended: one row of K and V, in
#    the slot of step 1.
#
# None of them needs to know how the others work. In libraries, *where* and *how* meet in one
# kernel (FlashAttention's and PyTorch's *varlen_attn* take a `block_table`), so they are easily taken for one idea.

# %% share-heading [markdown]
# ## Four answers, one prompt
#
# A user asks for **four answers** to one question. The prompt has 17 tokens. Its K and V are the
# same for all four: the answers differ from the first new token on.
#
# With cards that is easy: copy the *card* three times. That is a **fork**. Now four cards name the
# same two sheets, and on each sheet you note how many cards name it. Then each answer gets its
# first token.

# %% predict-fork
p_fork = Predict(
    "11-fork",
    "17 tokens on pages of 16, held by four. Each appends one token. How many pages are in use "
    "then, all together?",
    unit="pages",
)
p_fork

# %% fork-by-hand [markdown]
# Do it by hand. The first sheet is full: nobody writes on it any more, and all four may keep it.
# The second has one line, and 15 free ones. The first answer wants to write there. If it did, the
# others would read its token as theirs. So it takes a fresh sheet, copies that one line, writes
# below it, and changes its card. The second answer does the same, and the third. And the fourth?

# %% fork-run
full = 17 // 16  # pages that nobody writes to any more
answers = 4
print(f"apart:  {answers * -(-18 // 16)} pages")
print(f"shared: {full + answers} pages, and {answers - 1} copies of one line each")

# %% reveal-fork
p_fork.reveal(
    full + answers,
    "One full page for all, and one page for each. The fourth is alone on the old sheet by then, "
    "so he may write on it: 3 copies, not 4.",
)

# %% fork-say [markdown]
# This is **copy-on-write**: share until somebody writes; then copy, only the page that is written
# to. The fork itself copied nothing but a table. (A shared sheet is *kept* once. It is still
# *loaded* by each request's program for itself.)
#
# Below are the four, before they write. Let A append [a
# token](#fac-pages-acts) (press *+ 1 token*, or drag it for more), then B, C and D (press a
# row to choose it). Who has to copy? Then end A: which of its pages are free again?

# %% fork-widget
PageTable.example("fork")

# %% fork-check [markdown]
# A, B and C copy the one line each; D is alone on the old second page by then, and writes there.
# When A ends, its copy is free again. The first page stays: three cards still name it.

# %% prefix-heading [markdown]
# ## The same beginning, an hour later: prefixes
#
# Many requests begin alike: the same instructions, the same document, the same chat so far. So do
# not throw the pages away when a request ends: keep them while nobody needs the room. Who comes
# later with the same beginning, the same **prefix**, finds them.
#
# From the second layer on, a key depends on its token and on all tokens *before* it (lesson 10).
# So equal beginnings have equal pages. Equal *middles* have not: what came before differs.
#
# To find the longest known beginning, texts are kept in a **radix tree**. Each branch holds some
# tokens, and a text is a way from the root. Where two texts part, the branch splits:
#
# ```
# you are a helpful … ─┬─ what is the capital of ─┬─ France?
#                      │                          └─ Peru?
#                      └─ write a poem
# ```
#
# A new text walks down as far as it agrees; the pages it can use are noted along the way. When
# room is short, leaves go first, the one that was used longest ago.

# %% predict-prefix
p_prefix = Predict(
    "11-prefix",
    "Pages of 16. A new text agrees with a kept one in its first 40 tokens, and differs then. How "
    "many tokens of the kept pages can it simply use?",
    unit="tokens",
)
p_prefix

# %% reveal-prefix
p_prefix.reveal(
    40 // 16 * 16,
    "Two whole pages. The third has 8 tokens of the common beginning and then others, so a page "
    "that holds it as it is would be wrong from its ninth slot on.",
)

# %% prefix-say [markdown]
# This saves more than room: those 32 tokens need no prefill. It is a *policy*. SGLang, a serving library,
# calls it RadixAttention; the kernel is the same as before.

# %% evict-heading [markdown]
# ## When the text itself is too long: windows and sinks
#
# So far nothing was lost. If one text alone outgrows the memory, some of its tokens must go. The
# simplest policy is a **window**: keep the last W tokens. Xiao and others (2023) found that models
# break down when the *first* tokens go: many heads put much of their weight there, whatever these
# tokens say. They call them **sinks**, and keep the first four and a window. The cache has then a
# fixed size, for a text of any length.

# %% predict-evict
p_evict = Predict(
    "11-evict",
    "Sinks and a window: old tokens are dropped for good. What stays as it was?",
    options=["the answer", "the bytes that each kept token takes", "how many keys a step reads"],
)
p_evict

# %% reveal-evict
p_evict.reveal(
    "the bytes that each kept token takes",
    "There are fewer of them. The softmax runs over other keys, so the answer is another one: "
    "FlashAttention and pages are exact, this is not.",
)

# %% families [markdown]
# ## All of them in one table
#
# | idea | kind | what it mends | exact? |
# |---|---|---|---|
# | FlashAttention | kernel | S and P travel to memory and back | yes |
# | pages (*PagedAttention*) | layout | room is reserved and stays empty | yes |
# | copy-on-write | policy | the same text is kept twice | yes |
# | prefix cache (*RadixAttention*) | policy | the same beginning is computed and kept many times | yes |
# | windows, sinks, other eviction | policy | every old token is kept | no |
# | scheduler (lesson 12) | policy | the GPU waits for the longest request of a batch | yes |
# | numbers of 1 byte (lesson 12) | the numbers | 2 bytes a number | no |
# | GQA (lesson 10), latent attention (lesson 12) | another model | K and V for every head | another model, another answer |
# | more devices, the CPU's memory | layout | one GPU's memory is small | yes |
#
# FlashAttention is one row, and combines with every other.

# %% claim [markdown]
# ## A claim card: "24 times the throughput"
#
# vLLM was introduced with that number (*up to 24x*). You will meet it as "paging makes serving 24
# times faster".

# %% predict-claim
p_claim = Predict(
    "11-claim",
    "The same server, against two that reserve a request's memory in one piece (FasterTransformer "
    "and Orca; the paper, at equal latency: tokens come as promptly from both). About how much?",
    options=["24 times", "8 to 15 times", "2 to 4 times"],
)
p_claim

# %% claim-table folded=true
# @title A table: what it was measured against
rows = [
    ("the announcement", "HuggingFace Transformers", "14 to 24"),
    ("the announcement, three answers each", "HuggingFace Transformers", "8.5 to 15"),
    ("the announcement", "Text Generation Inference", "2.2 to 2.5"),
    ("the announcement, three answers each", "Text Generation Inference", "3.3 to 3.5"),
    ("the paper, at equal latency", "FasterTransformer, Orca", "2 to 4"),
]
Table(("where", "against", "times the throughput"), rows,
      note="Their figures, not ours. vllm.ai, 20 June 2023: LLaMA-7B on an A10G, LLaMA-13B on an A100, "
      "lengths from ShareGPT. Paper: Kwon and others, SOSP 2023, abstract.")  # fmt: skip

# %% reveal-claim
p_claim.reveal(
    "2 to 4 times",
    "The paper's abstract. It does not contradict the 24: the baselines differ.",
)

# %% claim-say [markdown]
# **Decide:** *24 times against HuggingFace Transformers* holds, as far as its authors say.
# *Paging makes it 24 times faster* cannot be decided from it: nothing in it switches only the
# pages on and off. (The other half, who goes next, is lesson 12.)

# %% shown [markdown]
# ## What was shown, and what was not
#
# **Shown.** Of four requests with 1024 slots each, 81.6 % is empty; with pages of 16, 3.8 %
# (formula). At most `page_size` − 1 slots a request are empty. Through a table a decode step
# reads the same tiles: the same answer in every bit (run), the same bytes of K and V, and the
# table (counted). On an H100 one kernel took 7 % longer at most (measured). A fork copies a table,
# and a page only when it is written to (by hand).
#
# **Not shown.** Why the H100 took longer, where it did. That more requests at a time make a server
# faster: that needs a scheduler, and the products with the weights. What real users' texts
# share at the beginning. How much worse a text gets with sinks and a window.

# %% questions [markdown]
# ## Questions
#
# Decide before you open.

# %% quiz-shrinks
Quiz(
    "A server has no memory left for its 70B model's caches. Somebody turns FlashAttention on. "
    "How many more requests fit?",
    options=[
        (
            "N/d times as many (N tokens, head dimension d).",
            False,
            "That is the factor for S and P, not for K and V.",
        ),
        ("None because of the cache.", True, "It reads K and V; they are as large as they were."),
        (
            "A few more: it keeps the cache in pages.",
            False,
            "A table of pages is a layout of its own.",
        ),
    ],
)

# %% quiz-same-thing
Quiz(
    "What is the relation of PagedAttention and FlashAttention?",
    options=[
        (
            "The second is the newer version of the first.",
            False,
            "Flash is from 2022, Paged from 2023.",
        ),
        ("You choose one of them for a server.", False, "Serving kernels do both at once."),
        (
            "Where the keys lie, and how they are folded: they combine freely.",
            True,
            "In this lesson: `where` and the loop around it.",
        ),
    ],
)

# %% quiz-waste
Quiz(
    "100 requests of different lengths, thousands of tokens each, pages of 16. How many slots may "
    "be empty in used pages, at most?",
    answer=1500,
    explanation="15 in the last page of each request.",
)

# %% quiz-table-bytes
Quiz(
    "A text of 8192 tokens, pages of 16. How many bytes of table does a program read that looks "
    "at each entry once?",
    answer=2048,
    explanation="512 entries of 4 bytes.",
)

# %% quiz-fork
Quiz(
    "A prompt of exactly 32 tokens, pages of 16, is forked into three. Each appends one token. "
    "How many pages are copied?",
    answer=0,
    explanation="Both pages are full, so nobody writes to a shared page: each takes a fresh one.",
)

# %% quiz-middle
Quiz(
    "Two texts have different first words, and then the same document of 5000 tokens. What can a "
    "prefix cache share?",
    options=[
        ("Nothing.", True, "From layer 2 on a key depends on all tokens before it."),
        ("The document.", False, "Its words are equal. Its keys and values are not."),
        (
            "The document, if it begins with a new page.",
            False,
            "Its keys differ, wherever they lie.",
        ),
    ],
)

# %% exercises [markdown]
# ## Your turn
#
# Open `exercises/11_pages.ipynb`. 11.1 counts what is reserved and what is wasted, in bytes. 11.2
# follows the table in PyTorch, for all heads, and 11.3 in a Triton kernel: lesson 10's, with a
# look-up before each load. 11.4 is the stack of sheets itself, a class `PagePool`; the picture
# above can play yours. 11.5 finds the longest shared beginning, and 11★ keeps sinks and a window.

# %% next [markdown]
# ## What comes next
#
# There is room now. Who gets it? In lesson 12 requests come and go, and each step somebody
# decides: who goes next?
#
# **To read:**
# - Kwon and others: *Efficient Memory Management for Large Language Model Serving with
#   PagedAttention* (2023), [arXiv:2309.06180](https://arxiv.org/abs/2309.06180): sections 3 and 4
#   are this lesson's pictures, 7.1 is the price.
# - Zheng and others: *SGLang* (2023), [arXiv:2312.07104](https://arxiv.org/abs/2312.07104): the radix
#   tree, section 3.
# - Xiao and others: *Efficient Streaming Language Models with Attention Sinks* (2023),
#   [arXiv:2309.17453](https://arxiv.org/abs/2309.17453), figures 1 and 2.
