# %% title [markdown]
# # 12 · Serving: exercises
#
# Run a cell with Shift+Enter.

# %% imports
from course_lib import check, hint, progress

# %% about-12-1 [markdown]
# ## 12.1 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(latent_decode)`.


# %% ex-12-1
def latent_decode(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-12-1
check(latent_decode)

# %% about-12-2 [markdown]
# ## 12.2 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(int8_cache)`.


# %% ex-12-2
def int8_cache(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-12-2
check(int8_cache)

# %% about-12-3 [markdown]
# ## 12.3 · Who goes next? (★★★, 45 minutes)
#
# You are the scheduler of a server. Before **each step** `next_batch` is asked once: what is
# computed in this step, and who gives up its pages? It is told what a server knows, oldest first
# (a request that comes later has a larger id):
#
# - `waiting`: `{id: todo}`. They have no pages, and `todo` tokens to compute.
# - `running`: `{id: (cached, todo)}`. `cached` tokens have their K and V in pages, `todo` are known and
#   not computed yet: **more than 1** of a prompt, **1** of an answer (its newest token; the next one
#   comes out of the step that computes it), **0** once the answer has ended.
# - `free_pages`, and how many tokens a page holds, `page_size`. A request that has `cached` tokens
#   has just as many pages as these need.
#
# Return `(compute, leave)`: a dict `{id: tokens}` and a list of ids.
#
# ```
# next_batch({7: 30}, {3: (5, 1), 4: (8, 0)}, 1, budget=8, page_size=4)  ->  ({3: 1, 7: 7}, [4])
# ```
#
# 4 has ended and leaves, so 3 pages are free. 3 gets its token, on a page that it has. 7 is admitted:
# of its prompt come the 7 tokens for which there is budget. The rules:
#
# 1. At most `budget` tokens a step, and no more new pages than are free, together with those of who
#    leaves. (The budget is never smaller than the number of all pages.)
# 2. Who has ended leaves at once.
# 3. An answer never waits for a prompt: as long as pages last, each gets its token in every step.
# 4. A long prompt comes in chunks, over several steps.
# 5. If pages run out, and only then, somebody leaves before it has ended. It waits again with all
#    of its tokens, those it was given included, and they are computed anew. (Each request fits the
#    pool alone.)
# 6. As long as a request has a prompt to compute, at most 5 that came later finish theirs, in steps
#    that give them more tokens than it.
# 7. Of 30 requests all answers are there after 85 % of the time of *static* batching, where nobody
#    is admitted until a whole batch has ended.
#
# How long an answer gets, and who comes next, you are not told. The check holds the clock and
# plays a step for each of your decisions: what you do not return is not remembered anywhere.


# %% ex-12-3
def pages_for(tokens, page_size):
    """Return how many pages so many tokens fill."""
    return -(-tokens // page_size)


def next_batch(waiting, running, free_pages, *, budget, page_size):
    """Decide one step of a server: return ({id: tokens to compute}, [ids that leave]).

    waiting {id: todo}, running {id: (cached, todo)}, both oldest first; see the rules above.
    """
    ### BEGIN SOLUTION
    leave = [i for i, (_, todo) in running.items() if todo == 0]
    stay = {i: state for i, state in running.items() if i not in leave}
    free = free_pages + sum(pages_for(running[i][0], page_size) for i in leave)

    def growing():  # answers whose last page is full
        return sum(todo == 1 and cached % page_size == 0 for cached, todo in stay.values())

    pages_ran_out = growing() > free
    while growing() > free:
        newest = max(stay)
        leave.append(newest)
        free += pages_for(stay.pop(newest)[0], page_size)

    compute = {i: 1 for i, (_, todo) in stay.items() if todo == 1}
    free -= growing()
    budget -= len(compute)
    prompts = {i: state for i, state in stay.items() if i not in compute}
    if not pages_ran_out:
        prompts |= {i: (0, todo) for i, todo in waiting.items()}
    for i, (cached, todo) in prompts.items():
        has = pages_for(cached, page_size)
        tokens = min(todo, budget, (has + free) * page_size - cached)
        if tokens <= 0:
            break
        compute[i] = tokens
        budget -= tokens
        free -= pages_for(cached + tokens, page_size) - has
    return compute, leave
    ### END SOLUTION


# %% check-12-3
check(next_batch)

# %% about-12-4 [markdown]
# ## 12.4 · Double every number (5 minutes)
#
# Return twice `x`, an array of any shape. Stuck? `hint(choose_backend)`.


# %% ex-12-4
def choose_backend(x):
    """Return an array of x's shape: every number of x, doubled."""
    ### BEGIN SOLUTION
    return x + x
    ### END SOLUTION


# %% check-12-4
check(choose_backend)

# %% progress
progress()
