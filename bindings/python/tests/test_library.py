"""The library as a whole: loading, fork, exit, versions, log, capabilities."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mmsb
import pytest
from conftest import RunPython
from mmsb import _ffi


def good(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout.strip()


def test_versions() -> None:
    assert mmsb.version() == mmsb.__version__
    assert mmsb.abi_version() == 0
    assert "go1." in mmsb.build_info()


def test_capabilities() -> None:
    found = mmsb.capabilities()
    assert {"cuda", "huge pages", "write tracking"} <= found.keys()
    for name, capability in found.items():
        assert isinstance(capability, mmsb.Capability)
        assert capability.name == name
        assert isinstance(capability.available, bool)
        assert capability.reason


def test_memory_usage(ctx: mmsb.Context) -> None:
    page = ctx.create_page(1 << 22)
    page.apply(mmsb.Delta.runs([(0, b"x")]))
    page.metadata["key"] = bytes(1000)
    ctx.create_page(5000, location="disk")
    usage = mmsb.memory_usage()
    assert isinstance(usage, mmsb.MemoryUsage)
    assert usage.page_bytes >= 1 << 22
    assert usage.record_bytes > 0
    assert usage.mask_bytes >= 1 << 19
    assert usage.metadata_bytes >= 1000
    assert usage.disk_bytes >= 5000
    assert usage.go_heap_bytes > 0
    assert usage.cache_bytes >= 0


def test_live_objects(ctx: mmsb.Context) -> None:
    before = mmsb.debug_live_objects("page")
    page = ctx.create_page(1)
    assert mmsb.debug_live_objects("page") == before + 1
    page.destroy()
    assert mmsb.debug_live_objects("page") == before
    with pytest.raises(mmsb.InvalidArgumentError):
        mmsb.debug_live_objects("unicorn")


def test_log(run_python: RunPython, tmp_path: Path) -> None:
    program = """
import pathlib, mmsb
assert mmsb.log_read() == mmsb.LogLines([], 0)
with open(PATH, "wb") as file:
    mmsb.log_configure("debug", file.fileno())
    with mmsb.Context() as ctx:
        ctx.create_page(100).destroy()
        try:
            ctx.page(12345)
        except mmsb.NotFoundError:
            pass
    log = mmsb.log_read()
    assert log.lost == 0 and log.lines, log
    mmsb.log_configure("off")
assert pathlib.Path(PATH).read_text().splitlines() == log.lines
assert mmsb.log_read().lines == []
for level, error in (("loud", ValueError), (3, TypeError)):
    try:
        mmsb.log_configure(level)
    except error:
        pass
    else:
        raise AssertionError(level)
try:
    mmsb.log_configure("info", 12345)
except mmsb.InvalidArgumentError:
    pass
else:
    raise AssertionError
"""
    good(run_python(f"PATH = {str(tmp_path / 'log')!r}" + program))


def test_shutdown(run_python: RunPython) -> None:
    program = """
import mmsb
ctx = mmsb.Context()
page = ctx.create_page(10)
ticket = ctx.create_pages_start(100_000, 64)
mmsb.shutdown()
mmsb.shutdown()
try:
    page.size
except mmsb.StaleHandleError as error:
    assert not isinstance(error, mmsb.ClosedError)
else:
    raise AssertionError
ticket.close()
ctx.close()
with mmsb.Context() as again:
    assert again.create_page(10).size == 10
assert mmsb.debug_live_objects("ticket") == mmsb.debug_live_objects("context") == 0
"""
    good(run_python(program))


# ---------------------------------------------------------------------------------------------------- loading


def test_import_loads_nothing(run_python: RunPython) -> None:
    program = """
import pathlib, sys, mmsb
from mmsb import _ffi
def loaded():
    return "libmmsb" in pathlib.Path("/proc/self/maps").read_text()
mmsb.Delta.runs([(0, b"x")])
assert "numpy" not in sys.modules and "asyncio" not in sys.modules
assert not loaded() and not _ffi.lib.loaded
mmsb.version()
assert loaded() and _ffi.lib.loaded
"""
    good(run_python(program))


def test_where_the_library_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "one" / "two" / "three" / "four" / "mmsb" / "_ffi.py"
    fake.parent.mkdir(parents=True)
    monkeypatch.setattr(_ffi, "__file__", str(fake))
    monkeypatch.delenv("MMSB_LIBRARY", raising=False)
    with pytest.raises(ImportError, match="make"):
        _ffi.find_library()
    in_tree = tmp_path / "one" / "build" / "libmmsb.so"
    in_tree.parent.mkdir()
    in_tree.touch()
    assert _ffi.find_library() == str(in_tree)
    packaged = fake.parent / "_lib" / "libmmsb.so"
    packaged.parent.mkdir()
    packaged.touch()
    assert _ffi.find_library() == str(packaged)
    named = tmp_path / "named.so"
    monkeypatch.setenv("MMSB_LIBRARY", str(named))
    with pytest.raises(ImportError, match=r"MMSB_LIBRARY is .*named\.so"):
        _ffi.find_library()
    named.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MMSB_LIBRARY", "named.so")
    assert _ffi.find_library() == str(named)


def test_a_package_at_the_root_of_the_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ffi, "__file__", "/mmsb/_ffi.py")
    monkeypatch.delenv("MMSB_LIBRARY", raising=False)
    with pytest.raises(ImportError, match="/mmsb/_lib"):
        _ffi.find_library()


def test_what_is_no_library(run_python: RunPython, tmp_path: Path) -> None:
    program = """
import mmsb
try:
    mmsb.Context()
except ImportError as error:
    print(error)
"""
    text = tmp_path / "text.so"
    text.write_text("no library")
    assert "MMSB_LIBRARY" in good(run_python(program, MMSB_LIBRARY=str(text)))
    foreign = next(path for path in Path("/proc/self/maps").read_text().split() if "/libc.so" in path or "/libc-" in path)
    assert "mmsb_version" in good(run_python(program, MMSB_LIBRARY=foreign))


def test_a_library_of_another_release_is_refused(run_python: RunPython) -> None:
    program = """
import ctypes, mmsb
from mmsb import _abi
CHANGE
try:
    mmsb.Context()
except ImportError as error:
    print(error)
"""
    assert "ABI 0" in good(run_python(program.replace("CHANGE", "_abi.ABI_VERSION = 5")))
    change = "_abi.STRUCTS[11] = type('Run', (ctypes.Structure,), {'_fields_': [('offset', ctypes.c_uint64)]})"
    assert "16 bytes" in good(run_python(program.replace("CHANGE", change)))


# ------------------------------------------------------------------------------------------------------- fork


def test_import_then_fork_then_use(run_python: RunPython) -> None:
    program = """
import multiprocessing, mmsb
def work(number):
    with mmsb.Context() as ctx:
        page = ctx.create_page(1000)
        page.apply(mmsb.Delta.runs([(number, b"x")]))
        tickets = ctx.create_pages_start(1000, 64).wait()
        return page.read().index(b"x") + len(tickets)
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(work, range(40)) == list(range(1000, 1040))
    assert work(1) == 1001
"""
    good(run_python(program))


def test_load_then_fork_then_use(run_python: RunPython) -> None:
    program = """
import ctypes, os, traceback
from mmsb import _ffi
library = ctypes.CDLL(_ffi.find_library())
library.mmsb_version.restype = ctypes.c_char_p
def threads():
    return len(os.listdir("/proc/self/task"))
def use():
    context, page = ctypes.c_uint64(), ctypes.c_uint64()
    assert library.mmsb_context_create(None, ctypes.byref(context)) == 0
    assert library.mmsb_page_create(context, ctypes.c_uint64(5000), None, ctypes.byref(page)) == 0
    assert library.mmsb_page_write(page, ctypes.c_uint64(1), b"abc", ctypes.c_uint64(3)) == 0
    assert library.mmsb_context_destroy(context) == 0
def child(work):
    number = os.fork()
    if number == 0:
        try:
            work()
            import mmsb
            with mmsb.Context() as ctx:  # the package loads the same library
                assert ctx.create_page(10).size == 10
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return number
def ended(numbers):
    return [os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) for number in numbers]
assert library.mmsb_version() == b"0.1.0" and threads() == 1
children = [child(use) for _ in range(10)]
assert threads() == 1
use()
assert threads() > 1
assert ended(children) == [0] * 10
assert ended([child(use)]) == [1]
use()
"""
    result = run_python(program, PYTHONWARNINGS="ignore")
    assert result.returncode == 0, result.stderr


def test_what_ends_a_child_goes_on_through_blocks(tmp_path: Path, run_python: RunPython) -> None:
    program = f"""
import os, sys, warnings, mmsb
warnings.simplefilter("ignore")
ctx = mmsb.Context(simulate="always")
stream = ctx.runtime().stream()
block = stream.allocate(100)
def ended(make):
    number = -1
    try:
        with make():
            number = os.fork()
            if number == 0:
                sys.exit(3)
    except BaseException as error:
        if number == 0:
            os._exit(error.code if isinstance(error, SystemExit) else 4)
        raise
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
blocks = [
    ctx.group, ctx.writing, lambda: stream.use(block), lambda: ctx.journal({str(tmp_path / "journal")!r}),
    lambda: mmsb.CommandBuffer(10), lambda: mmsb.open({str(tmp_path / "store")!r}), ctx.runtime().stream, lambda: ctx,
]
print([ended(make) for make in blocks])
"""
    assert good(run_python(program)) == "[3, 3, 3, 3, 3, 3, 3, 3]"


def test_use_then_fork_is_an_error_in_the_child(run_python: RunPython) -> None:
    program = """
import gc, multiprocessing, os, mmsb, numpy
ctx = mmsb.Context()
page = ctx.create_page(1000)
view = numpy.asarray(page)
delta = mmsb.Delta.runs([(0, b"x")]).convert("indexed")
ticket = ctx.create_pages_start(10, 64)
def work(_):
    global ctx, page, view, ticket, delta
    uses = [
        mmsb.Context, mmsb.version, mmsb.capabilities, mmsb.memory_usage, ctx.pages, lambda: len(ctx),
        lambda: ctx.create_page(1), lambda: page.size, lambda: page.epoch, lambda: page.version, lambda: page.address,
        page.read, lambda: page.write(0, b"x"), page.memory, page.info, page.destroy, lambda: page.metadata["x"],
        ticket.wait, ticket.done, lambda: delta.validate(5),
    ]
    for use in uses:
        try:
            use()
        except mmsb.ForkedError as error:
            assert error.code == 44 and "fork" in str(error)
        else:
            return "no error"
    assert "ForkedError" in repr(page)
    # What the child lets go of is the parent's: nothing of it reaches the library.
    ctx.close()
    ctx = page = view = ticket = delta = None
    gc.collect()
    return os.getpid()
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert os.getpid() not in pool.map(work, range(1))
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.apply(mmsb.version) == "0.1.0"
    view[0] = 5
    assert page[0] == 5 and len(ticket.wait()) == 10
"""
    result = run_python(program, PYTHONWARNINGS="default")
    # Python 3.12 warns of a fork in a process with threads.
    assert result.returncode == 0, result.stderr
    assert "Error" not in result.stderr.replace("ForkedError", "")


def test_a_fork_while_another_thread_loads(run_python: RunPython) -> None:
    program = """
import os, threading, mmsb
from mmsb import _abi, _ffi
inside, go_on = threading.Event(), threading.Event()
verify = _ffi._verify
def slow(*arguments):
    inside.set()
    go_on.wait()
    verify(*arguments)
_ffi._verify = slow
thread = threading.Thread(target=mmsb.version)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    try:
        mmsb.version()
    except mmsb.ForkedError:
        os._exit(0)
    os._exit(1)
go_on.set()
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert mmsb.version()
"""
    result = run_python(program, PYTHONWARNINGS="default")
    assert result.returncode == 0, result.stderr


# ------------------------------------------------------------------------------------------------------- exit


@pytest.mark.parametrize("ending", ["pass", "sys.exit(0)", "raise SystemExit", "os._exit(0)"])
def test_exit_with_open_handles_and_live_views(run_python: RunPython, ending: str) -> None:
    program = f"""
import os, sys, threading, time, mmsb, numpy
ctx = mmsb.Context()
page = ctx.create_page(1 << 20)
view = numpy.asarray(page)
part = view[5:10]
memory = page.memory()
released = ctx.create_page(5000).release()
adopted = ctx.adopt(bytearray(5000))
disk = numpy.asarray(ctx.create_page(5000, location="disk"))
delta = mmsb.Delta.runs([(0, b"x")]).convert("indexed")
tickets = [ctx.create_pages_start(200_000, 64) for _ in range(3)]
ctx.create_pages_start(200_000, 64)
holder = [tickets]
holder.append(holder)
def use():
    while True:
        page.write(0, b"x")
threading.Thread(target=use, daemon=True).start()
time.sleep(0.05)
with page.pin() as pinned:
    {ending}
"""
    good(run_python(program))


def test_a_thread_that_ends_after_the_main_thread(run_python: RunPython) -> None:
    program = """
import threading, time, mmsb, numpy
ctx = mmsb.Context()
page = ctx.create_page(1000)
def use():
    time.sleep(0.2)
    view = numpy.asarray(page)
    view[0] = 1
    print(page[0])
threading.Thread(target=use).start()
"""
    assert good(run_python(program)) == "1"


def test_it_works_without_numpy(run_python: RunPython) -> None:
    program = """
import sys
sys.modules["numpy"] = None
import mmsb
with mmsb.Context() as ctx:
    page = ctx.create_page(10)
    page.apply(mmsb.Delta.indexed([1, 2], [3, 4]))
    page.apply(mmsb.Delta.sparse(b"\\1", b"x", length=8))
    assert page[:3] == b"x\\3\\4"
    assert page.mask_bits() == b"\\7\\0"
    with page.pin(write=True) as view:
        view[0] = 5
    ctx.apply_runs(ctx.create_pages(2, 10), [0, 1], b"ab", 1)
    ctx.adopt(bytearray(5))[0] = 1
    try:
        page.array()
    except ImportError:
        print("no numpy")
"""
    assert good(run_python(program)) == "no numpy"


def test_a_subinterpreter_is_refused(run_python: RunPython) -> None:
    """One that ends drops nothing: what it had would stay until the process ends."""
    program = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
program = '''
try:
    import mmsb
    print("no error")
except ImportError as error:
    print(error)
'''
other = interpreters.create({legacy})
interpreters.run_string(other, program)
interpreters.destroy(other)
sys.stdout.flush()
import mmsb
assert mmsb.debug_live_objects("context") == 0
"""
    found = good(run_python(program.replace("{legacy}", '"legacy"' if sys.version_info >= (3, 13) else "")))
    assert "subinterpreter" in found
    assert "no error" not in found
