# tries: make the ledger report a perfect kernel beside PyTorch's answer; must: incorrect
# before a careless grader: forges the books
import torch


def one_tile_attention(q, k, v):
    from course_lib.accounting.kernel_ledger import KernelLedger, Launch
    from course_lib.accounting.ledger import Ledger

    launch = Launch("mine", (1,), {}, {}, {})
    KernelLedger.__init__ = lambda self: vars(self).update(
        read={"q": 1}, written={"o": 1}, flops=1, visits=[], launches=[launch]
    )
    KernelLedger.to_plain = lambda self: vars(self)
    Ledger.total = 10**6
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v
