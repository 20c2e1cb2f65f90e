"""State of whole programs: trees of arrays and scalars in snapshots that open without the program.

    mmsb.state.save("checkpoint.mmsb", {"model": weights, "step": 7})
    state = mmsb.state.load("checkpoint.mmsb")

docs/interchange.md is the guide, and has the metadata of the pages. It needs NumPy.
"""

from .checkpoint import Tracker, arrays, load, load_into, names, save, track
from .files import export_npz, export_safetensors, import_npz, import_safetensors
from .pages import StoredArray

__all__ = [
    "StoredArray",
    "Tracker",
    "arrays",
    "export_npz",
    "export_safetensors",
    "import_npz",
    "import_safetensors",
    "load",
    "load_into",
    "names",
    "save",
    "track",
]
