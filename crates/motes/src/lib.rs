//! Maximum-likelihood training of latent variable models with clouds of particles.
