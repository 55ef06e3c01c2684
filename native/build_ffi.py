"""The cffi module ``handset._native``: the contract ``kelter.h``, and nothing else.

CMake runs ``python build_ffi.py OUTPUT.c``; everything that the generated file
needs is in the library that CMake compiles beside it.
"""

import sys
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent

ffi = FFI()
ffi.cdef((HERE / "kelter.h").read_text(encoding="utf-8"))
ffi.set_source("handset._native", '#include <stdint.h>\n#include "kelter.h"\n')

if __name__ == "__main__":
    ffi.emit_c_code(sys.argv[1])
