"""What all world models have in common: one step of (observation, action) is one token, and what comes next is
told as a linear map plus what a network adds to it.

    x = (observation − mean) / scale;  z = [x, action], and the same of the last `frames` steps (see last_steps)
    next x = x + A z + b + r ⊙ f_i(z_1 ... z_t),   reward = B z + c + r' f_i,   i a head of the ensemble
    continue = σ(g(next x))

A, b, B and c are the least squares of the first data: much of physics is nearly linear over a short time, and a
network that only adds to that does not drift when its predictions are fed back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import Classes, Count, Depth, Kernel, Size, Width, config
from regard.errors import RegardError
from regard.models.actor_critic import ActorCritic
from regard.models.autoencoder import Autoencoder, AutoencoderConfig
from regard.models.frame_stack import WorldCaches, number_steps, stack_steps
from regard.models.registered_model import Options, RegisteredModel
from regard.nn.embed import StepEmbedding
from regard.nn.padding import zero_padding
from regard.shapes import expect
from regard.symmetry.groups import Group
from regard.symmetry.roles import Roles, Stream

LEAST = 1e-3  # what the network adds is in units of the linear map's error, or of this share of a change
ROUNDING = 1e-6  # and of this share of the largest number: less is what float32 rounds away
RIDGE = 0.1  # of codes: many of them say the same, and least squares alone would believe their small differences
BEYOND = 10.0  # imagination is stopped this many times the width of the data beyond its limits, so it stays finite
GOES_ON = 3.0  # the logit with which every step goes on before ends were seen


@config
class WorldConfig:
    """Settings of all world models."""

    observations: Width  # numbers of an observation
    actions: Classes  # kinds of an action, or numbers of a continuous one
    discrete: bool = True  # actions are kinds, given as one-hot vectors
    dim: Width = 64  # width of the residual stream
    depth: Depth = 2  # layers
    # heads that each predict what comes next; one is drawn for each imagined episode, so that a policy cannot
    # exploit the errors of one
    ensemble: Annotated[int, Field(ge=1, le=256)] = 3
    hidden: Width = 64  # width inside actor, critic and the network that says whether an episode goes on
    # last steps that the linear map, actor and critic see; more than 1 where one observation does not say everything,
    # as velocities do not show in it
    frames: Kernel = 1
    # c h w of images, whose codes are the observations: numbers of places that things in them have; (): vectors
    image: tuple[()] | tuple[Count, Size, Size] = ()
    width: Width = 8  # images: channels of the autoencoder's convolutions

    def __post_init__(self) -> None:
        if self.image:
            sight_config(self)  # which checks the rest


class WorldModel(RegisteredModel):
    """What comes next: observation, reward, and whether the episode goes on.   steps b n (o + a) -> b n (o + 2)

    A step is an observation of o numbers and the action taken on it. The output is the mean of all heads: the
    next observation, the reward, and the logit of *continue*. Causal: output i depends on steps up to i.
    A subclass gives `read` and `body_caches`.
    """

    Config: ClassVar[Any] = WorldConfig
    TINY: ClassVar[Options] = dict(observations=3, actions=2, dim=16, depth=2, hidden=8)
    keeps: Group
    mean: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor
    pace: Tensor
    skip: Tensor
    offset: Tensor
    size: Tensor

    def __init__(self, config: WorldConfig) -> None:
        super().__init__()
        self.config = config
        o, a = config.observations, config.actions
        self.embed = StepEmbedding(config.frames * (o + a), config.dim)
        self.head = nn.Linear(config.dim, config.ensemble * (o + 1))
        with torch.no_grad():
            self.head.weight.mul_(0.1)  # it begins near the linear map, each head a little apart
        self.ends = nn.Sequential(
            nn.Linear(o, config.hidden),
            nn.SiLU(),
            nn.Linear(config.hidden, config.hidden),
            nn.SiLU(),
            nn.Linear(config.hidden, 1),
        )
        nn.init.constant_(self.ends[4].bias, GOES_ON)  # type: ignore[arg-type]
        self.policy = ActorCritic(config.frames * (o + a) - a, a, config.hidden, discrete=config.discrete)
        self.autoencoder: Autoencoder | None = None
        if config.image:
            self.autoencoder = Autoencoder(sight_config(config))
        self.register_buffer("mean", torch.zeros(o))
        self.register_buffer("scale", torch.ones(o))
        self.register_buffer("low", torch.full((o,), -10.0))  # of scaled observations, in imagination
        self.register_buffer("high", torch.full((o,), 10.0))
        self.register_buffer("pace", torch.ones(o))  # deviation of a change in one step, scaled
        self.register_buffer("skip", torch.zeros(o + 1, config.frames * (o + a)))
        self.register_buffer("offset", torch.zeros(o + 1))
        self.register_buffer("size", torch.ones(o + 1))

    # ── what a subclass gives

    def read(self, x: Tensor, where: Tensor | None, real: Tensor | None, caches: Any) -> Tensor:
        """The body. With caches the steps are new ones.   b n d -> b n d"""
        raise NotImplementedError

    def body_caches(self) -> Any:
        """An empty past of the body."""
        raise NotImplementedError

    def caches(self) -> WorldCaches:
        """An empty past, for imagination one step at a time."""
        return WorldCaches(self.body_caches())

    # ── predictions

    def forward(
        self, steps: Tensor, *, where: Tensor | None = None, real: Tensor | None = None, caches: Any = None
    ) -> Tensor:
        """where: places n or b n, None: consecutive; real: bool b n, False for padding, which may hold anything.

        With caches (see `caches`) the steps are new ones that go on from those given before.
        """
        scaled = self.scale_steps(steps, real)
        mean = self.outlook(scaled, where=where, real=real, caches=caches).mean(2)  # b n o+1
        x, reward = mean[..., :-1], mean[..., -1:]
        return torch.cat((self.restore(x), reward, self.goes_on(x)[..., None]), -1)

    def outlook(
        self, scaled: Tensor, *, where: Tensor | None = None, real: Tensor | None = None, caches: Any = None
    ) -> Tensor:
        """What each head predicts: the next observation, scaled, and the reward.   b n (o + a) -> b n e o+1"""
        z = self.look_back(scaled, where=where, real=real, caches=caches)
        added = self.residuals(z, where=where, real=real, caches=caches)
        return self.linear(z)[:, :, None] + self.size * added

    def look_back(
        self, scaled: Tensor, *, where: Tensor | None = None, real: Tensor | None = None, caches: Any = None
    ) -> Tensor:
        """Each step with those before it that are seen at once.   b n (o + a) -> b n frames·(o + a)"""
        if caches is not None and not isinstance(caches, WorldCaches):
            raise RegardError(f"caches must be what model.caches() gives, got {type(caches).__name__}")
        frames = self.config.frames
        if frames == 1:
            return scaled
        if not scaled.shape[1]:
            return scaled.repeat(1, 1, frames)
        last = None if caches is None else caches.last
        new = number_steps(scaled, where, real, last)
        known = new if last is None else last.join(new)
        if caches is not None:
            caches.last = known.keep(frames - 1)
        return stack_steps(new, known, frames, self.pace)

    def policy_inputs(self, x: Tensor, caches: WorldCaches) -> Tensor:
        """What actor and critic see: the present observation, scaled, and the steps before it.
        b o -> b frames·(o + a) − a"""
        if self.config.frames == 1:
            return x
        o = self.config.observations
        asked = nn.functional.pad(x, (0, self.config.actions))[:, None]
        new = number_steps(asked, None, None, caches.last)
        known = new if caches.last is None else caches.last
        z = stack_steps(new, known, self.config.frames, self.pace)[:, 0]
        return torch.cat((z[:, :o], z[:, o + self.config.actions :]), -1)

    def residuals(
        self, z: Tensor, *, where: Tensor | None = None, real: Tensor | None = None, caches: Any = None
    ) -> Tensor:
        """What each head adds to the linear map, in units of its error. z: what `look_back` gives
        b n frames·(o + a) -> b n e o+1"""
        body = None if caches is None else caches.body
        h = self.read(self.embed(z, real), where, real, body)
        return self.head(h).unflatten(-1, (self.config.ensemble, -1))

    def go_on(self, z: Tensor, real: Tensor) -> Callable[[Tensor], Tensor]:
        """Read steps; then each call is one more step of every row, and gives what `residuals` would give for it.
        z: what `look_back` gives, b n frames·(o + a); real: bool b n; then b frames·(o + a) -> b e o+1"""
        step = self.steps_after(self.embed(z, real), real)
        return lambda z: self.head(step(self.embed.linear(z))).unflatten(-1, (self.config.ensemble, -1))

    def steps_after(self, x: Tensor, real: Tensor) -> Callable[[Tensor], Tensor]:
        """The same of the body alone.   b n d, bool b n; then b d -> b d"""
        caches = self.body_caches()
        if x.shape[1]:
            self.read(x, None, real, caches)
        return lambda x: self.read(x[:, None], None, None, caches)[:, 0]

    def linear(self, z: Tensor) -> Tensor:
        """The linear map alone: the next observation, scaled, and the reward.   b n frames·(o + a) -> b n o+1"""
        change = nn.functional.linear(z, self.skip, self.offset)
        o = self.config.observations
        return torch.cat((z[..., :o] + change[..., :o], change[..., o:]), -1)

    def goes_on(self, x: Tensor) -> Tensor:
        """The logit that an episode goes on from this observation, which is scaled.   ... o -> ..."""
        return self.ends(x)[..., 0]

    # ── images

    def encode_images(self, images: Tensor) -> Tensor:
        """The code of each image, which is what the model sees of it.   b h w c, in bytes -> b o"""
        assert self.autoencoder is not None
        x = images.to(self.mean.device).permute(0, 3, 1, 2).to(self.mean.dtype) / 255
        return self.autoencoder.encode(x)[0]

    def decode_images(self, codes: Tensor) -> Tensor:
        """The expected image of each code.   b o -> b h w c, in bytes"""
        assert self.autoencoder is not None
        x = self.autoencoder.decode_mean(codes).clamp(0, 1) * 255
        return x.round().to(torch.uint8).permute(0, 2, 3, 1)

    # ── units

    def scale_steps(self, steps: Tensor, real: Tensor | None = None) -> Tensor:
        """Steps with scaled observations; padding is zeros.   b n (o + a)"""
        o, a = self.config.observations, self.config.actions
        expect(steps, "b n d", name="steps", d=o + a)
        steps = zero_padding(steps, real)
        return torch.cat((self.normalise(steps[..., :o]), steps[..., o:].to(self.mean.dtype)), -1)

    def normalise(self, observations: Tensor) -> Tensor:
        """... o, in units of the data's deviation"""
        return (observations - self.mean) / self.scale

    def restore(self, x: Tensor) -> Tensor:
        """... o, in the units of the environment"""
        return x * self.scale + self.mean

    @torch.no_grad()
    def fit_linear(
        self,
        steps: Tensor,
        following: Tensor,
        rewards: Tensor,
        discount: float = 0.99,
        *,
        before: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Take units and the linear map from data.   n (o + a), n o, n
        before: the steps before each of them n k (o + a), and which are real, bool n k; None: there are none"""
        o = self.config.observations
        seen = torch.cat((steps[:, :o], following)).double()
        self.mean.copy_(seen.mean(0))
        self.scale.copy_(self._unit(seen))
        change = self.normalise(following) - self.normalise(steps[:, :o])
        self.pace.copy_(self._unit(change.double()))
        z = self._stack_rows(steps, before).double()
        target = torch.cat((change, rewards[:, None]), 1).double()
        z = torch.cat((z, torch.ones_like(z[:, :1])), 1)
        if self.autoencoder is not None:
            z, target = _with_ridge(z, target, RIDGE)
        # gelsd: one-hot actions and the constant are dependent, so many maps are the best, and it takes the smallest
        found = torch.linalg.lstsq(z, target, driver="gelsd").solution  # frames·(o+a)+1 o+1
        self.skip.copy_(found[:-1].T)
        self.offset.copy_(found[-1])
        self.policy.scale.copy_(rewards.double().square().mean().sqrt().clamp(min=1e-6) / (1 - discount))
        self.size.copy_(self._measure_size(steps, following, rewards, before))

    @torch.no_grad()
    def fit_size(
        self, steps: Tensor, following: Tensor, rewards: Tensor, *, before: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """Take from more data how far the linear map is off, and in which limits observations lie. What the heads
        predict stays the same.   n (o + a), n o, n; before as above"""
        size = self._measure_size(steps, following, rewards, before)
        shrink = (self.size / size).repeat(self.config.ensemble)
        self.head.weight.mul_(shrink[:, None])
        self.head.bias.mul_(shrink)
        self.size.copy_(size)

    def _unit(self, x: Tensor) -> Tensor:
        """The deviation of each number; of codes of images that of all together, because all of them are places, and
        what hardly moves must not count as much as what does.   n o -> o"""
        if self.autoencoder is None:
            return _spread(x)
        together = x.var(0, correction=0).mean().sqrt()
        return together.clamp(min=1e-8).expand(x.shape[1])

    def _stack_rows(self, steps: Tensor, before: tuple[Tensor, Tensor] | None) -> Tensor:
        """Steps that are no sequence, each with those before it.   n (o + a) -> n frames·(o + a)"""
        caches = WorldCaches(None)
        if before is not None and self.config.frames > 1:
            past, real = before
            caches.last = number_steps(self.scale_steps(past, real), None, real, None)
        return self.look_back(self.scale_steps(steps[:, None]), caches=caches)[:, 0]

    def _measure_size(
        self, steps: Tensor, following: Tensor, rewards: Tensor, before: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """The error of the linear map, of each number. Sets the limits of imagination, too.   -> o+1"""
        z = self._stack_rows(steps, before)
        x, after = z[:, : self.config.observations], self.normalise(following)
        truth = torch.cat((after, rewards[:, None]), 1)
        apart = (truth - self.linear(z[None])[0]).double().square().mean(0).sqrt()
        change = torch.cat((after - x, rewards[:, None]), 1).double().std(0, correction=0)
        low, high = torch.minimum(x.amin(0), after.amin(0)), torch.maximum(x.amax(0), after.amax(0))
        self.low.copy_(low - BEYOND * (high - low))
        self.high.copy_(high + BEYOND * (high - low))
        rounding = ROUNDING * (1 + truth.double().abs().amax(0))
        size = torch.maximum(torch.maximum(apart, LEAST * change), rounding)
        if self.autoencoder is not None:  # as for the deviations
            size[:-1] = torch.maximum(size[:-1], size[:-1].square().mean().sqrt())
        return size.to(self.size)

    # ── for check

    @property
    def roles(self) -> Roles:
        """What each input is, for `check`."""
        stream = Stream("steps", mask="real", places="where", sides=("right", "left"))
        promises = {"reordering": "holds", "causality": "holds"}
        return replace(Roles(streams=(stream,), promises=promises), step=_step)

    def sample_inputs(self, seed: int = 0, tokens: int | None = None, rows: int | None = None) -> dict[str, Tensor]:
        draw = torch.Generator().manual_seed(seed)
        o, a = self.config.observations, self.config.actions
        b, n = rows or 3, tokens or 12
        seen = self.restore(torch.randn(b, n, o, generator=draw).to(self.mean))
        if self.config.discrete:
            done = torch.eye(a)[torch.randint(a, (b, n), generator=draw)]
        else:
            done = torch.rand(b, n, a, generator=draw) * 2 - 1
        return {"steps": torch.cat((seen, done.to(seen)), -1)}


def sight_config(config: WorldConfig) -> AutoencoderConfig:
    """The autoencoder of a world that is seen as images: its code says where things are."""
    colours = config.image[:1]
    return AutoencoderConfig(
        shape=config.image,
        body="spatial",
        latent=config.observations,
        width=config.width,
        depth=2,
        mean=(0.1,) * sum(colours),
        deviation=(0.2,) * sum(colours),
    )


def _step(model: Any, inputs: dict[str, Any], caches: Any) -> tuple[Tensor, Any]:
    """Reading with a cache, as `check` asks for it."""
    if caches is None:
        caches = model.caches()
    return model(**inputs, caches=caches), caches


def _with_ridge(z: Tensor, target: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Least squares of these rows are those of the given ones, plus share · n · (the squares of all weights but those
    of the constant, which is the last column).   n f, n t"""
    weight = (share * len(z)) ** 0.5 * torch.eye(z.shape[1], dtype=z.dtype, device=z.device)[:-1]
    return torch.cat((z, weight)), torch.cat((target, target.new_zeros(len(weight), target.shape[1])))


def _spread(x: Tensor) -> Tensor:
    """The deviation of each number; 1 for one that never changes.   n o -> o"""
    spread = x.std(0, correction=0)
    return torch.where(spread > 1e-8 * (1 + x.abs().amax(0)), spread, 1.0)
