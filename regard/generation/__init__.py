"""Text from a model: sampling and beam search over caches."""
