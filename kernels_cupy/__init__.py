"""CUDA kernels for generated frames, launched through CuPy, and the same computations in NumPy."""
