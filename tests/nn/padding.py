"""Tokens in some of n slots, and junk in the others: what pools and memories must not read."""

import torch

SLOTS = [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8], [0, 2, 3, 6, 8]]  # padding behind, in front, in between


def put_in_slots(x, slots, n, junk):
    """The tokens of x in some of n slots, in their order, and junk in the others; with `real`."""
    wide = x.new_full((x.shape[0], n, x.shape[2]), junk)
    real = torch.zeros(x.shape[0], n, dtype=torch.bool)
    for row, where in enumerate(slots):
        wide[row, where], real[row, where] = x[row], True
    return wide, real
