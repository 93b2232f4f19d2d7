"""Attention drawn at random: layouts, ways to write a softmax, changes after it and sums with values, in any
combination."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

B, H, I, J, C = 2, 3, 5, 7, 4

SOFTMAXES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "softmax": lambda a, d: a.softmax(d),
    "double": lambda a, d: a.double().softmax(d).float(),
    "exp": lambda a, d: a.exp() / a.exp().sum(d, keepdim=True),
    "exp_": lambda a, d: (e := a.clone().exp_()).div_(e.sum(d, keepdim=True)),
    "maximum": lambda a, d: (e := (a - a.amax(d, keepdim=True)).exp()) / e.sum(d, keepdim=True),
    "logsumexp": lambda a, d: (a - a.logsumexp(d, keepdim=True)).exp(),
    "log_softmax": lambda a, d: F.log_softmax(a, d).exp(),
    "sigmoid": lambda a, d: a.sigmoid(),
}
HARMLESS: dict[str, Callable[..., Tensor]] = {
    "one": lambda w, d, h, m: w * 1.0,
    "contiguous": lambda w, d, h, m: w.contiguous(),
    "clone": lambda w, d, h, m: w.clone(),
    "detach": lambda w, d, h, m: w.detach(),
}
CHANGES: dict[str, Callable[..., Tensor]] = {
    "gate": lambda w, d, h, m: w * m.gate.view([H if a == h else 1 for a in range(4)]),
    "renormalize": lambda w, d, h, m: (w * w).div((w * w).sum(d, keepdim=True)),
    "talk": lambda w, d, h, m: (w.movedim(h, -1) @ m.talk).movedim(-1, h),
    "flip": lambda w, d, h, m: w.flip(d),
    "top": lambda w, d, h, m: torch.where(w >= w.topk(3, d).values.amin(d, keepdim=True), w, 0.0),
    "add": lambda w, d, h, m: w + 0.01,
}
# w is b h i j here, v is b j h c
SUMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "einsum": lambda w, v: torch.einsum("bhij,bjhc->cihb", w, v),
    "matmul": lambda w, v: w @ v.transpose(1, 2),
    "left": lambda w, v: v.permute(0, 2, 3, 1) @ w.mT,
    "bmm": lambda w, v: w.reshape(B * H, I, J).bmm(v.transpose(1, 2).reshape(B * H, J, C)),
    "sum": lambda w, v: (w.transpose(1, 2)[..., None] * v.transpose(1, 2)[:, None]).sum(-2),
    "heads": lambda w, v: torch.stack([w[:, n] @ v[:, :, n] for n in range(H)]),
}
SCORES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "einsum": lambda q, k: torch.einsum("bihc,bjhc->bhij", q, k),
    "matmul": lambda q, k: q.transpose(1, 2) @ k.permute(0, 2, 3, 1),
    "products": lambda q, k: (q[:, :, None] * k[:, None]).sum(-1).permute(0, 3, 1, 2),
    "additive": lambda q, k: torch.tanh(q[:, :, None] + k[:, None]).sum(-1).permute(0, 3, 1, 2),
}


@dataclass(frozen=True)
class Plan:
    layout: tuple[int, ...]  # an order of b h i j
    score: str
    softmax: str
    after: tuple[str, ...]
    sum: str

    @classmethod
    def draw(cls, seed: int) -> Plan:
        pick = random.Random(seed)
        after = pick.sample(list(HARMLESS), pick.randint(0, 2))
        if pick.random() < 0.4:
            after += pick.sample(list(CHANGES), pick.randint(1, 2))
        return cls(
            tuple(pick.sample(range(4), 4)),
            pick.choice(list(SCORES)),
            pick.choice(["softmax", "softmax", *SOFTMAXES]),
            tuple(after),
            pick.choice(list(SUMS)),
        )

    @property
    def changes(self) -> bool:
        return any(name in CHANGES for name in self.after)


class Drawn(nn.Module):
    """Attention as a plan says. `truth` are the weights that multiplied the values.   b h i j"""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(12, H * C) for _ in range(3))
        self.gate, self.talk = nn.Parameter(torch.rand(H)), nn.Parameter(torch.randn(H, H))
        self.plan = plan
        self.truth: Tensor | None = None

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        plan = self.plan
        q, k, v = (t.unflatten(-1, (H, C)) for t in (self.q(x), self.k(y), self.v(y)))
        scores = SCORES[plan.score](q, k).permute(plan.layout)
        keys, heads = plan.layout.index(3), plan.layout.index(1)
        weights = SOFTMAXES[plan.softmax](scores, keys)
        for name in plan.after:
            weights = (HARMLESS | CHANGES)[name](weights, keys, heads, self)
        weights = weights.permute([plan.layout.index(axis) for axis in range(4)])
        self.truth = weights.detach().clone()
        return SUMS[plan.sum](weights, v)
