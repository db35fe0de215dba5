"""Training: objectives, the loop, checkpoints."""

import os

# oneDNN keeps kernels for the shapes it has met, and every batch has another number of tokens: in bfloat16 on
# a CPU memory would grow by megabytes a step, up to 1,024 shapes. Sixteen serve the layers of one step at the
# same speed. Both are read when the first kernel is made.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
os.environ.setdefault("LRU_CACHE_CAPACITY", "16")

# Without it PyTorch refuses to multiply matrices on a GPU when results must be the same every time.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
