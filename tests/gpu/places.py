"""Pages on GPU 0 through the Python package, with nothing but the standard library: `not run: ...` where there is no GPU."""

from __future__ import annotations

import os
import random
import tempfile

import mmsb


def main() -> None:
    passed = 0
    with mmsb.Context(simulate="off") as ctx:
        try:
            first = ctx.create_page(5000, location="gpu")
        except mmsb.NoDeviceError as reason:
            print(f"not run: {reason}")
            return
        print(", ".join(f"{device.name} ({device.bytes >> 20} MiB)" for device in ctx.devices()))
        draw = random.Random(1)
        for location in ("cpu", "gpu", "unified", "pinned", "disk"):
            page = ctx.create_page(5000, location=location)
            model = bytearray(5000)
            for _ in range(50):
                offset = draw.randrange(4900)
                payload = draw.randbytes(100)
                page.apply(mmsb.Delta.runs([(offset, payload)]))
                model[offset : offset + 100] = payload
                if draw.random() < 0.2:
                    page.migrate(draw.choice(("cpu", "gpu", "pinned")))
                elif draw.random() < 0.2 and page.location in ("cpu", "gpu"):
                    page.sync(draw.choice(("device", "both")))
            assert page.read(0, 5000) == bytes(model), location
            passed += 1
        first.write(0, b"kept")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pages")
            ctx.save(path)
            with mmsb.Context.load(path, simulate="off") as again:
                page = again.page(first.id)
                assert page.location == "gpu" and page.read(0, 4) == b"kept"
        passed += 1
    print(f"{passed} passed, 0 failed")


main()
