"""Runs each program of examples/plugins with the library that it needs, on a GPU, in this interpreter: `make test-gpu`.

Prints a line for each program, "not run: " with the reason where the library or a GPU is missing, and "N passed, M failed".
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import mmsb

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "plugins"
NEEDS = {
    "torch_pluggable": "torch",
    "torch_mempool": "torch",
    "cupy_pool": "cupy",
    "numba_manager": "numba_cuda",
    "rmm_resource": "rmm",
    "cuda_core_resource": "cuda.core",
}


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def main() -> int:
    passed = failed = 0
    cuda = mmsb.capabilities()["cuda"]
    for name, module in NEEDS.items():
        if not cuda.available:
            print(f"not run: {name}: {cuda.reason}")
        elif not installed(module):
            print(f"not run: {name}: {module} is not installed for {sys.executable}; PEERS_PYTHON= names another interpreter")
        else:
            done = subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, timeout=600)
            print(f"{'ok      ' if done.returncode == 0 else 'FAILED  '}{name}\n{done.stdout}{done.stderr}", end="")
            passed += done.returncode == 0
            failed += done.returncode != 0
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if sorted(NEEDS) != sorted(path.stem for path in EXAMPLES.glob("*.py")):
    sys.exit("FAILED: examples/plugins has other programs than NEEDS names")
sys.exit(main())
