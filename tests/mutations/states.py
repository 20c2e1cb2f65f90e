"""Bugs in mmsb.state: names, scalars, layouts, what must fit and what a file says. bindings/python/tests/test_state*.py must show
each."""

from mutation import Mutant
from subject import Python

TESTS = "tests/test_state.py tests/test_state_tracking.py tests/test_state_files.py"
# Without random trees: where one of these fails an assertion, pytest takes minutes to say so.
CHOSEN = f"{TESTS} --deselect tests/test_state.py::test_any_tree_comes_back"

STATES = Python(
    name="states",
    folder="mmsb/state",
    mode=CHOSEN,
    sound=(TESTS,),
    mutants=(
        Mutant(
            "same-name",
            "a text of digits and an int have the same name",
            "segment",
            'return "~s" + text if _LOOKS_LIKE_INT.fullmatch(text) else text',
            "return text",
        ),
        Mutant(
            "own-parent",
            "a tree that contains itself is not seen before the limit of levels",
            "node",
            "if id(thing) in self._above:",
            "if False:",
        ),
        Mutant(
            "first-refused",
            "only the first value that cannot be saved is named",
            "node",
            'self.refused.append(f"{shown}: {error}")',
            'self.refused = self.refused or [f"{shown}: {error}"]',
        ),
        Mutant(
            "same-keys",
            "a dict of a file may have a key twice",
            "_tree",
            "if len(found) != len(value):",
            "if False:",
        ),
        Mutant(
            "lost-copy",
            "an array with gaps is loaded into the copy that was saved",
            "_of_numpy",
            "copied = not rows.flags.c_contiguous",
            "copied = False",
            TESTS,
        ),
        Mutant(
            "foreign-tensor",
            "a tensor of a device is loaded into its copy in host memory",
            "_of_tensor",
            "_replace(writable=False, array=None, copied=True)",
            "_replace(copied=True)",
        ),
        Mutant(
            "stored-gaps",
            "a file may say strides that overlap",
            "layout_of",
            "strides[axis] != wanted[axis]",
            "strides[axis] > wanted[axis]",
        ),
        Mutant(
            "short-shape",
            "a file may say a shape that is less than its page",
            "layout_of",
            "if max(total, 1) != size:",
            "if max(total, 1) > size:",
        ),
        Mutant(
            "loose",
            "names that are missing or too many are not told",
            "_check",
            "if strict:",
            "if False:",
        ),
        Mutant(
            "other-type",
            "an array is loaded into one of another type",
            "_check",
            "held.layout[:2] != layout[:2]",
            "held.layout[1:2] != layout[1:2]",
        ),
        Mutant(
            "saved-twice",
            "an array with two names is saved twice",
            "key_of",
            "name if held.copied else address_of(held.memory)",
            "name",
        ),
        Mutant(
            "newer-tree",
            "a tree of a version that nobody knows is read",
            "_tree_page",
            "if not 0 < int(said) <= VERSION:",
            "if not 0 < int(said):",
        ),
    ),
)
