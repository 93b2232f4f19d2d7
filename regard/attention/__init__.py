"""One attention function and what it takes: masks, positions, biases, kernels, a cache."""
