# %% title [markdown]
# # 11 · Pages: where is not how
#
# **You need:** lesson 03 (piles and their merge), lesson 04 (the flat memory that counts), lesson
# 10 (decode and its cache). No GPU.
#
# **You will be able to:** say what a request's cache costs and what is wasted when room is
# reserved for it; read a block table and follow it to a key; say what pages change and what they
# do not; count the pages and copies when a text is forked; tell kernel, layout and policy apart,
# and ask of a claimed speed-up: against what?
#
# **Time:** 45 minutes for this lesson, 116 for its exercises.

# %% question [markdown]
# ## The question
#
# Lesson 10 kept K and V of earlier tokens in a cache. It had room for the longest text that could
# come, and most texts are short. A server keeps hundreds of such caches beside the weights of its
# model. When its memory is full, the next user waits.
#
# How much of that memory holds a token? And if one stores the tokens more cleverly, here and
# there, wherever a bit is free: must attention be computed in another way?
#
# **Where do the keys lie, and does the kernel care?**

# %% imports
import numpy as np

from course_lib import Predict, Quiz
from course_lib.accounting import decode_traffic as model
from course_lib.accounting.memory import FlatMemory
from course_lib.attention import OnlineState
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
    "K and V, for each layer, K/V head and token. It is a quarter of the weights, for one user.",
)

# %% kinds [markdown]
# ## Three kinds of help
#
# A library that serves models is proud of a long list of ideas. They mend different things, so it
# helps to know of what *kind* each one is.
#
# - A **kernel** says *how* attention is computed: in which order, and what is never written down.
# - A **layout** says *where* K and V lie in memory.
# - A **policy** says *who*: which request comes next, whose tokens stay, what is kept for later.
#
# | idea | kind | the problem that it fixes | what stays as it was |
# |---|---|---|---|
# | FlashAttention | kernel | S and P, N × N, travel to memory and back | **(a)** |
# | pages (*PagedAttention*) | layout | room is reserved and stays empty | **(b)** |
# | prefix cache (*RadixAttention*) | policy | the same beginning is computed and kept many times | texts that begin differently |
# | scheduler (lesson 12) | policy | the GPU waits for the longest request of a batch | what one request needs |
# | quantised cache (lesson 12) | the numbers | 2 bytes a number | how many tokens there are (and the answer is no longer exact) |
# | windows, eviction | policy | every old token is kept | **(c)** |
# | offload | layout | the GPU's memory is small | the bytes; and the road to the CPU is longer |
#
# Fill in the three blanks. The answers come at the end of the lesson.

# %% predict-table-a
p_table_a = Predict(
    "11-table-a",
    "(a): FlashAttention leaves as it was",
    options=[
        "the size of the cache, and where it lies",
        "the peak memory of a prefill",
        "the time of a long prefill",
    ],
)
p_table_a

# %% predict-table-b
p_table_b = Predict(
    "11-table-b",
    "(b): pages leave as they were",
    options=[
        "the empty slots",
        "how many requests fit",
        "the bytes of K and V that a step reads",
    ],
)
p_table_b

# %% predict-table-c
p_table_c = Predict(
    "11-table-c",
    "(c): who drops old tokens for good leaves as it was",
    options=["the answer", "the bytes that each kept token takes", "how many keys a step reads"],
)
p_table_c

# %% picture [markdown]
# ## The picture: a loose-leaf binder
#
# **Bound notebooks.** You take notes for four people, and nobody says how much he will dictate.
# So you buy four notebooks of 1024 lines. One of them dictates 5 lines. His notebook is his, with
# 1019 empty lines.
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
# What the text says does not change with the sheets it stands on. Nor does how you read: line by
# line, from the first to the last. **Where is not how.**

# %% by-hand [markdown]
# ## A number by hand: four requests
#
# They have 5, 17, 32 and 700 tokens so far: 754. In bound notebooks, each has 1024 slots.

# %% predict-reserved
p_reserved = Predict(
    "11-reserved", "1024 slots for each of the four. What share of them is empty?", unit="%"
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
    "Not an odd example: Kwon and others (2023, figure 2) found 20 to 38 % of the reserved "
    "memory in use, in the systems of their day.",
)

# %% pages-by-hand [markdown]
# Now sheets of 16. In your head: 5 tokens take 1 page, 17 take 2, 32 take 2 exactly, 700 take 44.
# Only the *last* page of a request can have empty slots: 11, 15, 0 and 4.

# %% predict-waste
p_waste = Predict(
    "11-waste",
    "A fifth request has some 100,000 tokens, and grows. Pages of 16. How many slots of its pages "
    "may be empty, at most?",
    unit="slots",
)
p_waste

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

# %% reveal-waste
p_waste.reveal(
    15,
    "At most page_size − 1, whatever the length. Waste goes with the number of requests, not "
    "with their tokens.",
)

# %% sizes-say [markdown]
# So why not pages of one slot, where nothing is empty? Look at the last column: the tables grow.
# They are still small: a slot of the model above takes 327,680 bytes, an entry 4. But each entry
# must be read before its page can be, and a page is what lies in one piece: with d = 128 and 2
# bytes, one head's K is 256 bytes in a page of 1 and 4 KiB in a page of 16. 16 is a usual size.
#
# And what is the room good for? Other requests. Memory for 4096 slots, and requests like our
# four:

# %% fit-run
per_request = 49 * 16 / 4  # 49 pages of 16 hold the four
print(f"reserved: {4096 // 1024} requests fit")
print(f"paged:    {4096 // per_request:.0f} requests like these fit")

# %% fit-say [markdown]
# Five times as many requests can decode together. All of them use the same *weights*, which are
# read once a step (lesson 10). That is what pages buy.
#
# Below are the four requests: each one's table, then [the memory](#fac-pages-memory) in pages
# (filled slots in the request's colour, empty ones hatched), then the same memory reserved. Areas
# are to scale. Move [the page size](#fac-pages-size) from 16 to 1, and to 64: where does the waste
# appear? Back at 16, press the + of the third request, C, which has 32 tokens. What happens?

# %% pages-widget
PageTable(lengths=(5, 17, 32, 700), reserve=1024, chosen="C")

# %% grow-say [markdown]
# It took a whole new page for one token, and the page then fills slowly, token by token. Lesson
# 10's sentence gets a third part: a cache grows by **rows**, it is kept in **pages**, and a
# kernel reads it by **tiles**. Three sizes, and none has to be a multiple of another.

# %% read-heading [markdown]
# ## Follow the table
#
# Where is token 20 of a request, with pages of 16? It is on the request's *second* sheet (20 //
# 16 = 1), line 4 (20 % 16). The card says which sheet the second one is. If its entry 1 is page
# 7, the token lies in slot 4 of page 7: row 7 · 16 + 4 = 116 of the memory.
#
# That is all. Below is lesson 10's decode step, on the flat memory of lesson 04, which counts
# what is read. It gets one more argument: `where`, a function that says in which row of memory a
# token lies. Nothing else in the loop knows of pages.


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
# by lot. In the slots that belong to nobody stands NaN: whoever reads one will see it.

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
# So **pages save room, not traffic.** A single decode step does not get faster. In the paper of
# 2023 it got slower: the authors measured 20 to 26 % more time for their paged kernel than for
# the one that they compared with (their section 7.1). The server as a whole was still faster; they
# put that down to more requests at a time.
#
# (One table serves all layers and heads: page 7 is page 7 in each of them. A kernel's program for
# one K/V head reads the entries for itself.)

# %% gather-heading [markdown]
# ### Or first make it one piece?
#
# You have a good decode kernel for a cache in one piece. So you copy the pages into one piece
# first, and then call it. It gives the right answer.

# %% predict-gather
p_gather = Predict(
    "11-gather",
    "Copy K's pages into one piece, then read that. How many times the bytes of K travel?",
    unit="times",
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
# Nobody in this list needs to know how the others work. FlashAttention's library takes a table
# (`block_table`), FlashInfer takes one too; in the serving libraries both ideas are in one
# kernel, and are easily taken for one.

# %% share-heading [markdown]
# ## Two people, one sheet
#
# A user asks for **four answers** to one question. The prompt has 17 tokens. Its K and V are the
# same for all four: the answers differ from the first new token on.
#
# With cards that is easy: copy the *card* three times. Now four cards name the same two sheets,
# and on each sheet you note how many cards hold it. That is a **fork**. Then each answer gets its
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
# Do it by hand. Sheet one is full: nobody writes on it any more, and all four may keep it. Sheet
# two has one line, and 15 free ones. The first answer wants to write there. If it did, the others
# would read its token as theirs! So it takes a fresh sheet, copies that one line, writes below,
# and changes its card. The second does the same, and the third. And the fourth?

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
# This is **copy-on-write**: share until somebody writes, and copy then, only the page that is
# written to. The fork itself copied nothing but a table. (Two cards on one sheet are fewer bytes
# in memory. Each request's program still *loads* that sheet for itself, unless the kernel knows
# better: lesson 10's cascade.)
#
# Below are the four, before they write; the number on a page is how many hold it. Let A append [a
# token](#fac-pages-acts) (press the + of its row, or drag it for more), then B, C and D: who has to
# copy? Then free A: which of its pages are free again, and which are not?

# %% fork-widget
PageTable.example("fork")

# %% prefix-heading [markdown]
# ## The same beginning, an hour later: prefixes
#
# Many requests begin alike: the same instructions, the same document, the same chat so far. Why
# throw the pages away when a request ends? Keep them as long as nobody needs the room. Who comes
# later with the same beginning finds them.
#
# From the second layer on, a key depends on its token and on all tokens *before* it (lesson 10).
# So equal beginnings have equal pages. Equal *middles* have not: what came before differs.
#
# To find the longest known beginning, texts are kept in a **radix tree**. Each branch is a
# stretch of tokens, and a text is a way from the root. Where two texts part, the branch splits:
#
# ```
# you are a helpful … ─┬─ what is the capital of ─┬─ France?
#                      │                          └─ Peru?
#                      └─ write a poem
# ```
#
# A new text walks down as far as it agrees. Its page numbers stand along the way. When room is
# short, leaves go first, the one that was used longest ago.

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
# This one does more than save room: those 32 tokens need no prefill either. It is a *policy*,
# made possible by a layout. SGLang calls its tree RadixAttention; but attention, the kernel, is
# the same as before.

# %% evict-heading [markdown]
# ## When the text itself is too long: windows and sinks
#
# So far nothing was lost. If one text alone outgrows the memory, some of its tokens must go. The
# simplest policy is a **window**: keep the last W tokens. Xiao and others (2023) found that
# models break down when the *first* tokens go, and that many heads put much of their weight there,
# whatever these tokens say. They call them **sinks**: keep a few of them (4), and the window.
#
# The cache has then a fixed size, for a text of any length. But mind what kind of help it is: the
# softmax runs over other keys, so the *answer is another one*. FlashAttention and pages are
# exact. This is not. 11★ is about the book-keeping.

# %% families [markdown]
# ## The table again
#
# Four families of remedies for a cache that is too large:
#
# | family | members | exact? |
# |---|---|---|
# | fewer bytes a token | GQA and MLA (another model), int8 or fp8 numbers | numbers in 1 byte are not |
# | fewer tokens | window, sinks, eviction by weight, landmarks (a key that stands for a block) | no |
# | better use of the room | pages, copy-on-write, prefix cache | yes |
# | more room | offload to the CPU, more devices (lesson 13) | yes |
#
# FlashAttention is in none of them. And the blanks of the first table:

# %% reveal-table
p_table_a.reveal(
    "the size of the cache, and where it lies",
    "K and V are what it reads. What it never writes, S and P, was never in the cache.",
)
p_table_b.reveal("the bytes of K and V that a step reads", "Counted above: pages save room.")
p_table_c.reveal(
    "the bytes that each kept token takes",
    "There are fewer of them, and the answer is another one.",
)

# %% claim [markdown]
# ## A claim card: "24 times the throughput"
#
# vLLM was introduced with that number (*up to 24x*). You will meet it as "paging makes serving 24
# times faster". Predict, then look at what it was measured against.

# %% predict-claim
p_claim = Predict(
    "11-claim",
    "The same server, against two that reserve a request's memory in one piece (FasterTransformer "
    "and Orca; the paper, at equal latency). About how much?",
    options=["24 times", "8 to 15 times", "2 to 4 times"],
)
p_claim

# %% claim-table folded=true
# @title A table: what it was measured against
rows = [
    ("the announcement", "HuggingFace Transformers", "14 to 24"),
    ("the announcement, three answers each", "HuggingFace Transformers", "8.5 to 15"),
    ("the announcement", "Text Generation Inference", "2.2 to 2.5"),
    ("the paper, at equal latency", "FasterTransformer, Orca", "2 to 4"),
]
Table(("where", "against", "times the throughput"), rows,
      note="Their figures, not ours. vllm.ai, 20 June 2023: LLaMA-7B on an A10G, LLaMA-13B on an A100, "
      "lengths from ShareGPT. Paper: Kwon and others, SOSP 2023, abstract.")  # fmt: skip

# %% reveal-claim
p_claim.reveal(
    "2 to 4 times",
    "That is the paper's abstract. The two numbers do not contradict each other: they have "
    "different baselines.",
)

# %% claim-say [markdown]
# **Decide:** *24 times against HuggingFace Transformers* holds, as far as its authors say.
# *Paging makes it 24 times faster* cannot be decided from it: nothing in it switches only the
# pages on and off. (Lesson 12 lets you look at the other half: who goes next.)

# %% shown [markdown]
# ## What was shown, and what was not
#
# **Shown.** Of four requests with 1024 slots each, 81.6 % is empty; with pages of 16, 3.8 %
# (formula). At most `page_size` − 1 slots a request are empty. Through a table a decode step
# reads the same tiles, so the answer is the same in every bit (run), and the same bytes of K and
# V, plus 4 bytes a page (counted). A fork copies a table, and a page only when it is written to (by
# hand).
#
# **Not shown.** That a paged kernel is as fast as another: no clock ran. That more requests at a
# time make a server faster: that needs a scheduler, and the products with the weights. What an
# hour of real users shares at the beginning. How much worse a text gets with sinks and a window.

# %% questions [markdown]
# ## Questions
#
# Decide before you open.

# %% quiz-shrinks
Quiz(
    "A server has no memory left for its 70B model's caches. Somebody turns FlashAttention on. "
    "How many more requests fit?",
    options=[
        ("N/d times as many.", False, "That is the factor for S and P, not for K and V."),
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
# follows the table in PyTorch, for all heads, and 11.3 in a Triton kernel: lesson 10's, with one
# look-up before each load. 11.4 is the stack of sheets itself, a class `PagePool` that appends,
# forks and frees. `PageTable.replay(PagePool, operations)` plays it in the picture above, step by
# step, and marks tokens that somebody else has overwritten. 11.5 finds the longest shared
# beginning, and 11★ keeps sinks and a window.

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
