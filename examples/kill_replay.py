#!/usr/bin/env python3
"""Kills a replay of a git history that keeps its pages on disk, again and again, and checks that nothing is lost.

replay_git.py --state runs as a separate process and reports each commit when it is on disk. It is killed (SIGKILL) at random
moments: while it starts or restores, within commits, while it saves a snapshot. After each kill the newest snapshot is verified;
the next run must have every commit that the run before acknowledged, and at most one more. In the end the pages must be equal to
the files of the newest commit, byte for byte, with as many deltas each as in a replay that was not killed. A history that ends
before the last kill begins again.

Exit code: as that of replay_git.py.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import generated_history
import mmsb
import replay_git
from kept_state import KeptState, StateError, numbered

DEFAULT_KILLS = 5
# Estimated seconds: of a run before its first commit, of a commit, of a save.
START, COMMIT, SAVE = 0.5, 0.005, 0.01


class LostError(Exception):
    """The state lacks acknowledged commits, or has too many."""


@dataclass
class Runs:
    """What the runs of one replay reported."""

    folder: Path
    state: Path
    newest: str
    acknowledged: int = 0
    kills: Counter[str] = field(default_factory=Counter)  # by what the run was doing
    tally: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @contextmanager
    def run(self) -> Iterator[subprocess.Popen[str]]:
        program = [sys.executable, replay_git.__file__, str(self.folder), "--state", str(self.state), "--commit", self.newest]
        started = time.perf_counter()
        with subprocess.Popen([*program, "--acknowledge"], stdout=subprocess.PIPE, text=True) as child:
            try:
                yield child
            finally:
                child.kill()
        self.seconds += time.perf_counter() - started

    def hear(self, line: str) -> str:
        """Records one line of a run and returns its first word."""
        what, *words = line.split()
        if what == "restored":
            self._restored(int(words[0]), words[1] == "half")
        elif what == "began" and self.acknowledged > 0:
            raise LostError(f"{self.acknowledged} commits were acknowledged, but the next run began with 0")
        elif what == "acknowledged":
            self.acknowledged = int(words[0])
            self.tally["records"] = int(words[1])
            self.tally["journal bytes"] = int(words[2])
            self.tally["most journal bytes"] = max(self.tally["most journal bytes"], int(words[2]))
        elif what == "saved":
            self.tally[f"{words[0]} snapshots"] += 1
            self.tally[f"{words[0]} bytes"] += int(words[2])
        return what

    def _restored(self, commits: int, half: bool) -> None:
        # A commit may be on disk before its acknowledgement is printed.
        if not self.acknowledged <= commits <= self.acknowledged + 1:
            raise LostError(f"{self.acknowledged} commits were acknowledged, but the state has {commits}")
        self.tally["restored"] += 1
        self.tally["half commits"] += half
        self.acknowledged = commits

    def killed(self, numbers: random.Random, commits: int) -> None:
        """One run that is killed after at most about that many further commits."""
        moment = numbers.choices(["start", "commit", "save"], [1, 3, 2])[0]
        wanted, limit = "acknowledged", numbers.randint(1, commits)
        if moment == "save":
            wanted, limit = "saving", 1
        with self.run() as child:
            assert child.stdout is not None
            last, heard, seen = "", 0, 0
            while moment != "start" and heard < limit and seen < commits and (line := child.stdout.readline()):
                last = self.hear(line)
                heard += last == wanted
                seen += last == "acknowledged"
            time.sleep(numbers.random() * {"start": START, "commit": COMMIT, "save": SAVE}[moment])
            child.send_signal(signal.SIGKILL)
            for line in child.stdout:  # the lines that it printed before the kill
                last = self.hear(line)
        if child.returncode == 0:  # it ended before the kill
            return self._begin_anew()
        if child.returncode != -signal.SIGKILL:
            raise LostError(f"the replay exited with {child.returncode} before it was killed")
        doing = {"": "starting", "saving": "saving", "began": "replaying", "restored": "replaying"}
        self.kills[doing.get(last, "replaying")] += 1
        if numbered(self.state, ".mmsb"):
            mmsb.verify(self.state / f"state-{numbered(self.state, '.mmsb')[-1]:08}.mmsb")

    def _begin_anew(self) -> None:
        shutil.rmtree(self.state)
        self.acknowledged = 0
        self.seconds = 0.0

    def finished(self) -> None:
        """One run to the end."""
        with self.run() as child:
            assert child.stdout is not None
            for line in child.stdout:
                self.hear(line)
            child.wait()
        if child.returncode != 0:
            raise LostError(f"the last run exited with {child.returncode}")


def long_history(spare: Path, seed: int) -> Path:
    """The repository of this file, or, if that is none or short, a generated one in `spare`."""
    this_one = Path(__file__).resolve().parent.parent
    try:
        if replay_git.count_commits(this_one) >= replay_git.FEWEST_COMMITS:
            return this_one
    except replay_git.GitError:
        pass
    generated_history.generate(spare, replay_git.GENERATED_COMMITS, seed)
    return spare


def kill_and_check(folder: Path, kills: int, seed: int, state: Path) -> bool:
    """Kills and restarts a replay, prints a summary, and returns whether everything matches."""
    numbers = random.Random(seed)
    with replay_git.Repository(folder) as repository, mmsb.Context() as undisturbed, mmsb.Context() as context:
        commits = repository.commits()
        plain = replay_git.Replay(repository, undisturbed)
        replay_git.replay_all(plain, commits)
        runs = Runs(folder, state, commits[-1].decode())
        while (left := kills - sum(runs.kills.values())) > 0:
            runs.killed(numbers, max(1, (len(commits) - runs.acknowledged) // left))
        runs.finished()
        with KeptState(state, context) as kept:
            again = replay_git.Replay(repository, context)
            replay_git.take_over_kept(again, commits, kept)
            again.epochs = Counter({page.id: plain.epochs[plain.pages[path].id] for path, page in again.pages.items()})
            report(runs, plain, again, f"{folder.resolve().name}, seed {seed}", len(commits))
            return replay_git.check(again, commits[-1])


def report(runs: Runs, plain: replay_git.Replay, again: replay_git.Replay, name: str, commits: int) -> None:
    tally, kills, deltas = runs.tally, sum(runs.kills.values()), plain.tally["deltas"]
    sizes = {what: replay_git.readable(tally[f"{what} bytes"]) for what in ("whole", "incremental", "journal", "most journal")}
    snapshots = [f"{tally[f'{kind} snapshots']} {kind} ({sizes[kind]})" for kind in ("whole", "incremental")]
    doing = [f"{count} while {what}" for what, count in sorted(runs.kills.items())]
    lines = {
        "commits": f"{commits}; {runs.seconds:.2f} s with git's part and {kills} restarts",
        "pages": f"{len(again.pages)} with {sum(page.size for page in again.pages.values())} bytes",
        "deltas": f"{deltas}; {deltas / runs.seconds:.0f} deltas/s with git's part, syncs and restarts",
        "snapshots": ", ".join(snapshots),
        "journal": f"{tally['records']} records; {sizes['journal']} kept, {sizes['most journal']} at most",
        "kills survived": f"{kills}: {', '.join(doing)}; {tally['half commits']} times half a commit was undone",
    }
    print(f"{name}, killed and restarted")
    for label, line in lines.items():
        print(f"  {label:<14} {line}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Kills a replay of a git history at random moments and checks that nothing is lost."
    )
    parser.add_argument(
        "repository", nargs="?", type=Path, metavar="REPO", help="default: this file's, or a generated one if that is short"
    )
    parser.add_argument("--kills", type=int, default=DEFAULT_KILLS, metavar="N", help=f"default {DEFAULT_KILLS}")
    parser.add_argument("--seed", type=int, help="seed of the moments and of the generated history; default: random")
    options = parser.parse_args(arguments)
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    try:
        with tempfile.TemporaryDirectory(prefix="mmsb-replay-") as temporary:
            folder: Path = options.repository or long_history(Path(temporary) / "generated.git", seed)
            return 0 if kill_and_check(folder, options.kills, seed, Path(temporary) / "state") else 1
    except (LostError, mmsb.MMSBError) as error:
        print(f"kill_replay: seed {seed}: {error}", file=sys.stderr)
        return 1
    except (replay_git.GitError, generated_history.GenerationError, StateError) as error:
        print(f"kill_replay: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("kill_replay: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
