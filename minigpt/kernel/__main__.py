"""`python -m minigpt.kernel` compiles the kernel for this machine, where the loader looks."""

import sys

from minigpt.kernel.build import KernelBuildError, build_native

try:
    print(build_native())
except KernelBuildError as error:
    sys.exit(str(error))
