"""Text from a model: sampling and beam search over caches, and one step of a decoder in C++."""
