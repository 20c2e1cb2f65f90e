"""Bugs in mmsb.state: in what an array is, how a tree is named, which pages it has, what a load fills, and in files of others.
Tests of the Python package must show each, and those with PyTorch the bugs in mmsb.state.dcp."""

from mutation import Mutant
from subject import ROOT, Python

LOADS = "tests/test_state.py"
TRACKED = "tests/test_state_tracking.py"
ON_DEVICES = "tests/test_state_devices.py"
OF_OTHERS = "tests/test_state_files.py"
LIES = f"{LOADS}::test_metadata_that_lies"
FILLED = f"{LOADS}::test_a_tree_is_filled"
SHARED = f"{LOADS}::test_one_memory_is_saved_once_and_shared_again"
NAMED = f"{LOADS}::test_what_cannot_be_saved_is_named_at_once"
INTERRUPTED = "tests/test_nothing_lost.py::test_a_tracked_tree_is_whole_behind_an_exception_between_any_two_steps"
REFUSED = f"{LOADS}::test_all_that_does_not_fit_is_named_and_nothing_changes"

STATES = Python(
    name="states",
    modules=tuple(f"mmsb/state/{name}.py" for name in ("arrays", "tree", "pages", "checkpoint", "files")),
    mode=LOADS,
    sound=(LOADS, TRACKED, ON_DEVICES, OF_OTHERS, INTERRUPTED),
    mutants=(
        # Arrays.
        Mutant(
            "gaps-in-a-file",
            "strides of a file that leave gaps or overlap are believed",
            "layout_of",
            "if any(strides[axis] != wanted[axis] for axis in range(len(shape)) if shape[axis] > 1):",
            "if False:",
            mode=LIES,
        ),
        Mutant(
            "read-only-arrays",
            "an array that is read-only counts as one to write into",
            "_of_numpy",
            "writable = flags.writeable",
            "writable = True",
            mode=REFUSED,
        ),
        Mutant(
            "other-order",
            "what a file has in another order of the dimensions is filled as if it had the array's",
            "Held.fill",
            "array_over(source, layout, kind)",
            "array_over(source, self.layout, kind)",
            mode=FILLED,
        ),
        Mutant(
            "device-not-filled",
            "the copy of an array on a device is filled, and the array is not",
            "Held.fill",
            "self.put()",
            "pass",
            mode=ON_DEVICES,
        ),
        Mutant(
            "shape-of-the-copy",
            "a copy of another shape than the array's is saved as the array",
            "_of_copies",
            'held.layout.shape != tuple(found["shape"])',
            "False",
            mode=ON_DEVICES,
        ),
        # Trees.
        Mutant(
            "int-or-text",
            "the keys 0 and '0' have one name",
            "_text_segment",
            '"~s" + text if',
            "text if",
            mode=f"{LOADS}::test_no_two_keys_have_the_same_name",
        ),
        Mutant(
            "endless-trees",
            "a tree that contains itself is walked",
            "_Walk.node",
            "if id(thing) in self._above:",
            "if False:",
            mode=NAMED,
        ),
        Mutant(
            "ends-above",
            "what is in a tree twice, beside itself, counts as being in itself",
            "_Walk.node",
            "self._above.pop()",
            "pass",
            mode=SHARED,
        ),
        Mutant(
            "doubled-keys",
            "a document with a key twice is read",
            "_tree",
            "len(found) != len(value)",
            "False",
            mode=f"{LOADS}::test_documents_that_lie",
        ),
        Mutant(
            "frozen-is-changed",
            "a frozen dataclass gets its scalars in place",
            "_fill_record",
            "copy.copy(thing) if frozen and changes else thing",
            "thing",
            mode=f"{LOADS}::test_what_never_changes_is_replaced",
        ),
        # Pages.
        Mutant(
            "renamed-arrays",
            "an array that has moved in the tree keeps its old names in its page",
            "TreePages._bind",
            "if entry.names != names:",
            "if False:",
            mode=TRACKED,
        ),
        Mutant(
            "copies-are-not-renewed",
            "a tracked array with gaps is saved as it was first",
            "TreePages._bind",
            "entry.memory[...] = memory",
            "pass",
            mode=TRACKED,
        ),
        Mutant(
            "arrays-by-name",
            "a tracker knows arrays by their names, not by their memory",
            "key_of",
            "name if held.copied else address_of(held.memory)",
            "name",
            mode=TRACKED,
        ),
        Mutant(
            "ids-come-again",
            "after a load an array that is new gets the id of a page that is there",
            "TreePages.took",
            "max(TREE_ID, *self._keep(kept)) + 1",
            "(self._keep(kept), TREE_ID + 1)[1]",
            mode=TRACKED,
        ),
        Mutant(
            "marks-without-addresses",
            "an array that has moved, and has the form it had, is taken for the one before",
            "mark_of",
            "return address, thing.dtype",
            "return id(thing), thing.dtype",
            mode=TRACKED,
        ),
        Mutant(
            "interrupted-pages-stay",
            "pages of a call that was interrupted are taken for those of the tree",
            "TreePages._bind",
            "if before is None:",
            "if False:",
            mode=INTERRUPTED,
        ),
        Mutant(
            "names-of-others",
            "a page whose metadata have another array's name is taken for the array",
            "StoredTree._layout",
            "if name.encode() not in (value for key, value in metadata.items() if key.startswith(NAME_KEY)):",
            "if False:",
            mode=LIES,
        ),
        # Saves and loads.
        Mutant(
            "last-granule",
            "a save with a base leaves the last granule of a run of changes out",
            "_write_changes",
            "(int(run[-1]) + 1) * _GRANULE",
            "max(int(run[-1]), int(run[0]) + 1) * _GRANULE",
            mode=f"{TRACKED}::test_a_save_with_a_base_compares",
        ),
        Mutant(
            "another-file",
            "a file that was replaced while it was read goes unnoticed",
            "_fill",
            "chosen, expected = None if ids == stored.ids() else sorted(ids), stored.snapshot_id",
            "chosen, expected = None if ids == stored.ids() else sorted(ids), None",
            mode=f"{LOADS}::test_a_file_that_is_replaced_meanwhile",
        ),
        Mutant(
            "another-base",
            "a save compares with a base that was replaced, and changes what has replaced it",
            "save_parts",
            "expected = stored.snapshot_id",
            "expected = None",
            mode=f"{LOADS}::test_a_base_that_is_replaced_meanwhile",
        ),
        Mutant(
            "replaced-for-ever",
            "a load whose file is replaced again and again has no end",
            "_unless_replaced",
            "left is not None and left <= 0",
            "False",
            mode=f"{LOADS}::test_a_file_that_is_replaced_again_and_again",
        ),
        Mutant(
            "overlapping-arrays",
            "arrays that overlap are both loaded into",
            "_direct",
            "start >= end and",
            "",
            mode=SHARED,
        ),
        Mutant(
            "second-array-of-a-page",
            "of two arrays that the file has as one, only one is filled",
            "_fill",
            "and key_of(name, held[name]) == key_of(*direct[leaf.page])",
            "",
            mode=SHARED,
        ),
        Mutant(
            "fills-before-it-looks",
            "arrays are filled though some cannot be written",
            "_fill",
            "if fixed:",
            "if False:",
            mode=REFUSED,
        ),
        # Files of others.
        Mutant(
            "holes-between-tensors",
            "tensors of safetensors may leave gaps and overlap",
            "_header",
            "if tensor.begin != end:",
            "if False:",
            mode=OF_OTHERS,
        ),
        Mutant(
            "bytes-behind-tensors",
            "a file of safetensors may have more or fewer bytes than its tensors",
            "_header",
            "if end != room - length:",
            "if False:",
            mode=OF_OTHERS,
        ),
        Mutant(
            "doubled-tensors",
            "a header of safetensors may have a name twice",
            "_unique",
            "len(found) != len(pairs)",
            "False",
            mode=OF_OTHERS,
        ),
        Mutant(
            "size-of-a-tensor",
            "the offsets of a tensor need not fit its type and shape",
            "_tensor",
            "end - begin != size or",
            "",
            mode=OF_OTHERS,
        ),
        Mutant(
            "names-that-meet",
            "of two names that are the same when joined by dots one goes",
            "_flat",
            "if name in found:",
            "if False:",
            mode=OF_OTHERS,
        ),
        Mutant(
            "unpickled-objects",
            "arrays of objects in a .npz file are unpickled",
            "import_npz",
            "allow_pickle=False",
            "allow_pickle=True",
            mode=OF_OTHERS,
        ),
        Mutant(
            "texts-are-lost",
            "an export leaves the texts of a file of safetensors out",
            "export_safetensors",
            "{} if texts is None else {_METADATA: texts}",
            "{}",
            mode=OF_OTHERS,
        ),
        Mutant(
            "half-an-export",
            "an export that fails leaves a temporary file",
            "_replacing",
            "os.unlink(temporary)",
            "pass",
            mode=OF_OTHERS,
        ),
    ),
)

DCP = "tests/torch/test_dcp.py"
DCP_LIES = f"{DCP}::test_files_that_lie"

DISTRIBUTED = Python(
    name="distributed",
    modules=("mmsb/state/dcp.py",),
    mode=DCP,
    sound=(DCP,),
    interpreter=ROOT / "build/venv-torch/bin/python",
    folder=ROOT,
    mutants=(
        Mutant(
            "shared-staging",
            "async_save writes the program's tensors, which change meanwhile",
            "_copied",
            'value.detach().to("cpu", copy=True)',
            "value.detach()",
            mode=f"{DCP}::test_one_rank_saves_while_it_goes_on",
        ),
        Mutant(
            "shards-of-one-name",
            "the parts that a rank has of a tensor have the tensor's name",
            "Writer.write_data",
            "None if chunk.sizes == item.tensor_data.size else _slices(chunk)",
            "None",
        ),
        Mutant(
            "pickled-values",
            "a value that would come back as another type is saved",
            "_check_plain",
            "elif type(value) not in _PLAIN and not isinstance(value, np.generic):",
            "elif False:",
            mode=f"{DCP}::test_what_would_be_pickled_is_refused_with_its_name",
        ),
        Mutant(
            "old-files-stay",
            "the files of the checkpoint that was replaced stay",
            "Writer.finish",
            "file.unlink()",
            "pass",
        ),
        Mutant(
            "files-elsewhere",
            "an index may name files outside of its folder",
            "Reader._tensor",
            "not _RANK_FILE.fullmatch(place.file) or",
            "",
            mode=DCP_LIES,
        ),
        Mutant(
            "missing-parts",
            "the parts of a tensor need not make it whole",
            "Reader._tensor",
            "if items != math.prod(shape):",
            "if False:",
            mode=DCP_LIES,
        ),
        Mutant(
            "shape-of-a-part",
            "a part of another shape than the index says is read",
            "Reader._stored",
            "array is None or array.shape != sizes",
            "array is None",
            mode=DCP_LIES,
        ),
        Mutant(
            "not-converted",
            "a tensor of another type than the file's stays as it was",
            "_fill",
            "target.copy_(host)",
            "pass",
            mode=f"{DCP}::test_a_tensor_is_converted_as_dcp_does",
        ),
    ),
)
