# tries: answer a walk of calls with what no walk gives; must: incorrect, error
# no control: the answer is wrong wherever it is looked at
from triton.runtime.interpreter import InterpretedFunction


class PagePool:
    def __init__(self, n_pages, page_size):
        pass

    def append(self, seq):
        run = InterpretedFunction.run
        channel = dict(zip(run.__code__.co_freevars, run.__closure__))["channel"].cell_contents
        told = {"ledger": None, "allocated": None, "tampering": None}
        channel.send({"result": [5, "x", None], **told})

    def fork(self, parent, child):
        pass

    def free(self, seq):
        pass

    def table(self, seq):
        return []
