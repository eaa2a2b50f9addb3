import subprocess
import sys

import pytest

TOUCH = """
import ctypes, resource, sys
from tfx_transformer.memory import keep_memory
if sys.argv[1] == "keep":
    assert keep_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def use():
    block = libc.malloc(200_000_000)
    ctypes.memset(block, 1, 200_000_000)
    libc.free(ctypes.c_void_p(block))
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc alone")
def test_freed_memory_is_not_fetched_again():
    faults = {}
    for how in ("keep", "give back"):
        command = [sys.executable, "-c", TOUCH, how]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        faults[how] = int(result.stdout)
    assert faults["keep"] < 100 < faults["give back"]
