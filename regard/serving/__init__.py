"""Servers on 127.0.0.1: who may ask, with which limits; and one that writes texts, as OpenAI's API does."""
