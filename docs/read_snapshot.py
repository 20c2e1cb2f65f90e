"""Reads a snapshot of version 3 or 4 and its bases by all rules of snapshot-format.md. python3 read_snapshot.py FILE"""

import hashlib
import json
import struct
import sys
from pathlib import Path

TABLE = list(range(256))
for _ in range(8):
    TABLE = [n >> 1 ^ (0x82F63B78 if n & 1 else 0) for n in TABLE]
UNIT, CHUNK, GRANULE = 4096, 262144, 4096
PAGE = ["id", "size", "epoch", "version", "location", "device", "numa_node", "flags", "first", "extents", "keys", "reserved"]


def need(holds, what):
    if not holds:
        raise ValueError(what)


def check(data, wanted, what, crc=0xFFFFFFFF):
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    need(crc ^ 0xFFFFFFFF == wanted, f"{what} is damaged")
    return data


def header(data):
    """The numbers of the two blocks at the ends, and the base's name."""
    magic, version, order, own, base, position, flags, length = struct.unpack_from("<8sII16s16s8xQII", data)
    lineage, parent, begins, latest = struct.unpack_from("<16s16sQQ", data, 328)
    done, again, count, file_id, at, size, *totals, crc = struct.unpack_from("<8sII16s8QI", data, len(data) - UNIT)
    for block in (0, len(data) - UNIT):
        check(data[block : block + UNIT - 4], *struct.unpack_from("<I", data, block + UNIT - 4), f"the block at {block}")
    whole = (magic, done, file_id, size, again, order) == (b"MMSBSNAP", b"MMSBDONE", own, len(data), version, 0x01020304)
    need(whole and version in (3, 4) and flags == 0 and any(own) and own != base, "no whole snapshot of version 3 or 4")
    need(any(base) == (length > 0) and length <= 255, "a base and its name go together")
    name = data[72 : 72 + length].decode()
    need(name not in (".", "..") and not set(name) & {"/", "\0"}, "the base is not in the same directory")
    need(not any(data[72 + length : 328]) and not any(data[376 : UNIT - 4]), "unknown fields of the header are not 0")
    need(any(lineage) == (version == 4) and (any(parent) or begins == 0), "the lineage is not whole")
    need((lineage != parent or version == 3) and max(position, begins, latest) < 2**63, "the lineage cannot be")
    need(latest == 0 or (latest > position and version == 4), "the latest step comes before the position")
    need(at % UNIT == 0 and at + (8 * count + UNIT - 1) // UNIT * UNIT == size - UNIT, "the segment table is elsewhere")
    need(totals[2] < 2**63 and totals[3] < 2**63 and not any(data[size - UNIT + 100 : -4]), "the footer's numbers cannot be")
    table = struct.unpack(f"<{count}Q", check(data[at : at + 8 * count], crc, "the segment table"))
    need(not any(data[at + 8 * count : size - UNIT]), "bytes behind the segment table")
    need((*table, at)[0] == UNIT, "the first segment is elsewhere")
    return own, base, name, totals, (*table, at)


def page_of(fields, based):
    """An entry, if it can be one."""
    page = dict(zip(PAGE, fields))
    size, place, device, flags = page["size"], page["location"], page["device"], page["flags"]
    need(page["id"] and 0 < size <= 2**44 and page["version"] < 3 * 2**62, "an id, size or version that no page has")
    need(0 <= place <= 4 and device >= 0 and (device == 0 or place not in (0, 4)), "a place that no page has")
    need(page["numa_node"] >= -1 and page.pop("reserved") == 0 and flags < 8, "an entry that cannot be")
    need(based if flags & 1 else page["extents"] > 0, "changes without a base, or nothing stored")
    return page


def length_of(page, kind):
    return (page["size"], (page["size"] + 7) // 8, 2**32)[kind]


def extent_of(page, fields, free):
    """An extent, if it can be one. free: where bytes can lie, and where all else ends."""
    offset, length, stored, place, crc, kind, how = fields
    need(kind < 3 and how < 3, "an extent of no kind")
    part = GRANULE if kind == 0 and page["flags"] & 1 else CHUNK
    left = min(CHUNK - offset % CHUNK, length_of(page, kind) - offset)
    need(offset % part == 0 and 0 < length <= left, "an extent begins or ends elsewhere")
    need(length == left or kind == 2 or length % part == 0, "an extent ends within a granule")
    if how == 2:
        need((stored, place, crc) == (0, 0, 0), "zeros that are stored")
        return
    need(0 < stored < length if how else stored == length, "a stored length that cannot be")
    size = page["size"] if kind == 0 and how == 0 else 0
    need(place % (4096 if size >= 4096 else 256 if size >= 256 else 64) == 0, "stored bytes are not aligned")
    need(free[0] <= place and place + stored <= free[1], "stored bytes lie over others")
    free[kind > 0] = place if kind else place + stored


def metadata(blob, keys):
    """Whether a blob has so many keys, each once."""
    count, at, seen = (*struct.unpack_from("<I", blob), 4, set()) if blob else (0, 0, set())
    for _ in range(count):
        for what in ("key", "value"):
            (length,) = struct.unpack_from("<I", blob, at)
            text, at = blob[at + 4 : at + 4 + length], at + 4 + length
            if what == "key":
                need(text and bytes(text) not in seen and text.decode() is not None, "a key is empty or comes twice")
                seen.add(bytes(text))
    need(at == len(blob) and count == keys, "metadata is not what its entry says")


def acyclic(edges):
    need(len(set(edges)) == len(edges), "a dependency comes twice")
    waits, children = {}, {}
    for parent, child in edges:
        waits[child] = waits.get(child, 0) + 1
        children.setdefault(parent, []).append(child)
    ready, done = [page for page in children if page not in waits], 0
    while ready:
        for child in children.get(ready.pop(), ()):
            done, waits[child] = done + 1, waits[child] - 1
            ready += [child] if waits[child] == 0 else []
    need(done == len(edges), "the dependencies make a cycle")


def complete(page, ends):
    """Whether a page's extents, which end there, are all that it needs."""
    need(page["flags"] & 1 or ends[0] == page["size"], "bytes of a page are missing")
    need(ends[1] in (0, length_of(page, 1)), "a part of a mask is missing")
    need((page["keys"] > 0) == (ends[2] > 0), "metadata without keys, or keys without metadata")


def read(path, newer=()):
    """The state: pages by id, each its fields and as "content" its bytes, mask and metadata; and the dependencies."""
    data = path.read_bytes()
    need(len(data) >= 2 * UNIT and len(data) % UNIT == 0, f"{path} is truncated")
    own, base, name, totals, table = header(data)
    need(own not in newer, "the chain of bases is a cycle")
    named, kept = path.parent / name, path.parent / f"mmsb-{base.hex()}.base"
    under = named if name and named.is_file() and named.read_bytes()[16:32] == base else kept
    pages, _ = read(under, (*newer, own)) if any(base) else ({}, [])
    need(not any(base) or under.read_bytes()[16:32] == base, "the base is another snapshot")
    edges, begun, removed, stored_bytes, last, ends = [], set(), [], 0, None, [0, 0, 0]
    kind_before, below, state = 0, dict(pages), {}
    for number, (start, end) in enumerate(zip(table, table[1:])):
        need(start < end <= start + 4194304 and start % UNIT == 0, "segments are out of order")
        magic, long, segment_id, own_number, kind, n, m, at, crc = struct.unpack_from("<8sQ16s6I", data, start)
        need((magic, long, segment_id, own_number) == (b"MMSBSEGM", end - start, own, number), f"segment {number} is another one")
        need(kind in (1, 2, 3) and n > 0 and (m == 0 or kind == 1), f"segment {number} is of no kind")
        entries = start + 56
        extents = entries + n * {1: 64, 2: 8, 3: 16}[kind]
        behind = extents + 32 * m
        need(at % UNIT == 0 and behind <= start + at <= end and (kind == 1 or start + at == end), "data lies elsewhere")
        check(data[start : start + 52] + data[entries:behind], crc, f"segment {number}")
        need(not any(data[behind : start + at]), "bytes between the tables and the data")
        edges += struct.iter_unpack("<QQ", data[entries:extents]) if kind == 3 else []
        removed += struct.unpack_from(f"<{n}Q", data, entries) if kind == 2 else ()
        first, free, gaps = 0, [at, end - start], bytearray(data[start:end]) if kind == 1 else b""
        for fields in struct.iter_unpack("<4Q3i5I", data[entries:extents]) if kind == 1 else []:
            page = page_of(fields, any(base))
            need(page["first"] == first and page["extents"] <= m - first, "extents are not those of the entries in order")
            attributes = {**page, "first": 0, "extents": 0}
            if last and last["id"] == page["id"] and first == 0 and page["extents"]:
                need(attributes == last, "a page goes on with other attributes, or comes twice")
            else:
                need(page["id"] not in begun, "a page comes twice")
                complete(last, ends) if last else None
                old = below.get(page["id"])
                need(not page["flags"] & 1 or (old and old["size"] == page["size"]), "changes of a page that is not in the base")
                content = bytearray(old["content"][0]) if page["flags"] & 1 else bytearray(page["size"])
                state[page["id"]] = {**page, "content": [content, bytearray(), bytearray()]}
                begun.add(page["id"])
                last, ends, kind_before = attributes, [0, 0, 0], 0
            for extent in struct.iter_unpack("<Q6I", data[extents + 32 * first : extents + 32 * (first + page["extents"])]):
                extent_of(page, extent, free)
                offset, length, stored, place, crc, what, how = extent
                partial = what == 0 and page["flags"] & 1
                follows = offset == ends[what] or (partial and offset > ends[what])
                need(what >= kind_before and follows, "extents are out of order")
                kind_before, ends[what] = what, offset + length
                stored_bytes += length if what == 0 else 0
                part = check(data[start + place : start + place + stored], crc, f"page {page['id']} at {start + place}")
                gaps[place : place + stored] = bytes(stored)
                if how:  # 1: zstd, which Python has since 3.14; 2: zeros
                    part = bytes(length) if how == 2 else __import__("compression.zstd").zstd.decompress(part)
                need(len(part) == length, "a frame of another length")
                state[page["id"]]["content"][what][offset : offset + length] = part
            first += page["extents"]
        need(first == m and not any(gaps[at:]), "extents of no page, or bytes between the extents")
    complete(last, ends) if last else None
    need(all(parent and child and parent != child for parent, child in edges), "a dependency that cannot be")
    need(0 not in removed and len(set(removed)) == len(removed) and (any(base) or not removed), "a removal that cannot be")
    need(not any(state[id]["flags"] & 1 for id in begun & set(removed)), "a page is changed and removed")
    pages = {**{id: page for id, page in pages.items() if id not in removed}, **state}
    for page in state.values():
        metadata(page["content"][2], page["keys"])
    need((totals[0], *totals[3:]) == (len(begun), stored_bytes, len(removed), len(edges)), "the footer counts something else")
    if not newer:  # what is below the newest file is another state
        acyclic(edges)
        need(totals[1:3] == [len(pages), sum(page["size"] for page in pages.values())], "the footer counts another state")
    return pages, edges


if __name__ == "__main__":
    pages, dependencies = read(Path(sys.argv[1]))
    for page in pages.values():
        page["content"] = [hashlib.sha256(part).hexdigest() for part in page["content"]]
    print(json.dumps({"pages": list(pages.values()), "dependencies": dependencies}, indent=1))
