"""Memory that is kept: what a step frees, the next one takes again.

glibc gives large blocks back to the system and fetches them anew, page by page, at every step.
Kept, they cost nothing but memory.
"""

import ctypes
import sys

# glibc's malloc.h: the parameter and its new value
_OPTIONS = {
    -8: 1,  # M_ARENA_MAX: one pool for all threads, or each would keep its own
    -4: 0,  # M_MMAP_MAX: no block comes from the system on its own
    -2: 1 << 28,  # M_TOP_PAD: grow by so many bytes
    -1: (1 << 31) - 1,  # M_TRIM_THRESHOLD: do not shrink below so many free bytes
}


def keep_memory() -> bool:
    """Tells the C library to keep what is freed; call it before TensorFlow starts its threads.

    Returns whether it does: with another library than glibc nothing changes.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) for name, value in _OPTIONS.items())
