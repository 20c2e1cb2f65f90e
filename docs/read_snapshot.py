"""Reads a snapshot of version 3 or 4 and its bases and checks every crc: snapshot-format.md. python3 read_snapshot.py FILE"""

import hashlib
import json
import struct
import sys
from pathlib import Path

TABLE = list(range(256))
for _ in range(8):
    TABLE = [n >> 1 ^ (0x82F63B78 if n & 1 else 0) for n in TABLE]
PAGE = ["id", "size", "epoch", "version", "location", "device", "numa_node", "flags", "first", "extents", "keys"]


def check(data, wanted, what, crc=0xFFFFFFFF):
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    if crc ^ 0xFFFFFFFF != wanted:
        raise ValueError(f"{what} is damaged")
    return data


def read(path):
    """The state: pages by id, each its fields and as "content" its bytes, mask and metadata; and the dependencies."""
    data = path.read_bytes()
    magic, version, own, base, length = struct.unpack_from("<8sI4x16s16s20xI", data)
    done, count, file_id, at, size, crc = struct.unpack_from("<8s4xI16sQQ48xI", data, len(data) - 4096)
    if (magic, done, file_id, size) != (b"MMSBSNAP", b"MMSBDONE", own, len(data)) or version not in (3, 4):
        raise ValueError(f"{path} is no whole snapshot of version 3 or 4")
    for block in (0, len(data) - 4096):
        check(data[block : block + 4092], *struct.unpack_from("<I", data, block + 4092), f"the block at {block}")
    named, kept = path.parent / data[72 : 72 + length].decode(), path.parent / f"mmsb-{base.hex()}.base"
    under = named if named.is_file() and named.read_bytes()[16:32] == base else kept
    pages, edges, begun = read(under)[0] if any(base) else {}, [], set()
    for number, start in enumerate(struct.unpack(f"<{count}Q", check(data[at : at + 8 * count], crc, "the segment table"))):
        magic, segment_id, own_number, kind, n, m, crc = struct.unpack_from("<8s8x16s4I4xI", data, start)
        entries, extents = start + 56, start + 56 + n * {1: 64, 2: 8, 3: 16}[kind]
        check(data[start : start + 52] + data[entries : extents + 32 * m], crc, f"segment {number}")
        if (magic, segment_id, own_number) != (b"MMSBSEGM", own, number):
            raise ValueError(f"segment {number} is another one")
        for id in set(struct.unpack_from(f"<{n}Q", data, entries) if kind == 2 else ()) - begun:
            pages.pop(id, None)
        edges += struct.iter_unpack("<QQ", data[entries:extents]) if kind == 3 else []
        for fields in struct.iter_unpack("<4Q3i4I4x", data[entries:extents]) if kind == 1 else []:
            id, first, behind = fields[0], extents + 32 * fields[8], extents + 32 * (fields[8] + fields[9])
            if id not in begun:
                under = pages[id]["content"][0] if fields[7] & 1 else bytearray(fields[1])
                pages[id] = {**dict(zip(PAGE, fields)), "content": [under, bytearray(), bytearray()]}
                begun.add(id)
            for offset, length, stored, place, crc, what, how in struct.iter_unpack("<Q6I", data[first:behind]):
                part = check(data[start + place : start + place + stored], crc, f"page {id} at {start + place}")
                if how:  # 1: zstd, which Python has since 3.14; 2: zeros
                    part = bytes(length) if how == 2 else __import__("compression.zstd").zstd.decompress(part)
                pages[id]["content"][what][offset : offset + length] = part
    return pages, edges


if __name__ == "__main__":
    pages, dependencies = read(Path(sys.argv[1]))
    for page in pages.values():
        page["content"] = [hashlib.sha256(part).hexdigest() for part in page["content"]]
    print(json.dumps({"pages": list(pages.values()), "dependencies": dependencies}, indent=1))
