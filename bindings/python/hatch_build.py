"""Puts the library and the tool into the wheel and names the platform it runs on; `make wheel` builds both and calls this."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LibraryHook(BuildHookInterface):  # type: ignore[type-arg]
    """One library for every Python 3, bound to a platform: py3-none-PLATFORM."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds what MMSB_WHEEL_LIBRARY and MMSB_WHEEL_TOOL name; an editable install finds the build tree's by itself."""
        if version == "editable":
            return
        try:
            library, tool = os.environ["MMSB_WHEEL_LIBRARY"], os.environ["MMSB_WHEEL_TOOL"]
            platform = os.environ["MMSB_WHEEL_PLATFORM"]
        except KeyError as missing:
            raise RuntimeError(f"{missing} is not set: build the wheel with `make wheel` in the repository") from None
        build_data["force_include"][library] = "mmsb/_lib/libmmsb.so"
        build_data["shared_scripts"][tool] = "mmsb"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
