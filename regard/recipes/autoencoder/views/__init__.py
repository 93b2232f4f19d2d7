"""What a page shows of an autoencoder: the latent space, reconstructions, samples, rate and distortion."""
