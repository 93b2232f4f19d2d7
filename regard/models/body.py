"""What a body of an autoencoder is: an encoder from an input to numbers, and a decoder from a code back."""

from __future__ import annotations

from torch import Tensor, nn

from regard.symmetry.groups import Group, Trivial


class Body(nn.Module):
    """The base of bodies. config: that of an autoencoder; outputs: numbers that the encoder gives"""

    keeps: Group = Trivial()

    def encode(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """b shape -> b outputs"""
        raise NotImplementedError(f"{type(self).__name__} must define encode()")

    def decode(self, z: Tensor) -> Tensor:
        """b latent -> b shape"""
        raise NotImplementedError(f"{type(self).__name__} must define decode()")
