"""Bugs in what reads recorded traces of allocators, and in what replays them.

Files of another writer, files that are cut off or wrong, and a recount beside each replay must show each."""

from mutation import Mutant
from subject import Go

TRACES = Go(
    name="traces",
    folders=("core/trace",),
    package="core/trace",
    mode="^TestFilesOfAnotherWriter$|^TestLines|^TestSnapshots$|^TestSegments",
    sound=(
        "^TestFiles|^TestLines|^TestS|^TestT|^TestPlaces|^TestColumns",
        "^TestWays|^TestALost|^TestPickles|^TestValues|^TestWhatAPickle",
    ),
    mutants=(
        Mutant(
            "taken-twice", "a block is taken where another one is live",
            "builder.take", "if _, is := b.live[r.address]; is {", "if _, is := b.live[r.address]; is && r.bytes == 0 {",
        ),
        Mutant(
            "freed-size", "a free of another size than the block's is replayed",
            "builder.give", "if t.bytes != r.bytes {", "if t.bytes < r.bytes && false {",
        ),
        Mutant(
            "midnight", "times behind midnight lie before those before it",
            "csvReader.day", "r.time += day", "r.time += 0 * day",
            mode="^TestTimesOfLines$",
        ),
        Mutant(
            "refusals-not-moved", "refusals lie too early where some blocks were there before",
            "builder.finish", "places.Refusals[at].At += count", "places.Refusals[at].At += 0 * count",
            mode="^TestPlaces",
        ),
        Mutant(
            "half-a-line", "a last line without an end counts as a line",
            "readCSV", "if err == io.EOF {", "if err == io.EOF && len(text) < 3 {",
            mode="^TestTracesThatAreCutOff$",
        ),
        Mutant(
            "requested-is-completed", "a block of PyTorch's ends when its free is requested",
            "builder.pytorchEvent", "if e.means == playsNothing",
            'if action == "free_requested" {\n\t\te.means = givesBlock\n\t}\n'
            "\tif e.means == playsNothing",
        ),
        Mutant(
            "beginning-forgotten", "blocks that are live at the end without an event are not there",
            "readPyTorch", "if b.seen[block.address] {", "if b.seen[block.address] || block.bytes > 0 {",
        ),
        Mutant(
            "beginning-anywhere", "each free without an allocation is taken for one of the lost beginning",
            "builder.give", "b.seen == nil || b.seen[r.address]", "b.seen == nil",
        ),
        Mutant(
            "beginning-of-all", "a CSV may always have lost its beginning",
            "newBuilder", "if options.Lost {", "if options.Lost || true {",
            mode="^TestLinesThatAreWrong$",
        ),
        Mutant(
            "blocks-not-moved", "frees name other blocks where some were there before",
            "builder.finish", "e.Block += uint32(count)", "e.Block += 0",
            mode="^TestALostBeginning$",
        ),
        Mutant(
            "reserved-forwards", "what segments took and gave counts the wrong way",
            "builder.mostReserved", "atEnd -= min(atEnd, e.bytes)", "atEnd += e.bytes",
        ),
        Mutant(
            "length-believed", "a pickle takes the memory that a length in it says",
            "pickle.text", "var text bytes.Buffer", "var text bytes.Buffer\n\ttext.Grow(int(min(length, 1<<62)))",
            mode="^TestPicklesThatAreRefused$",
        ),
        Mutant(
            "marks-passed", "an instruction of a pickle takes values from below the mark",
            "pickle.pop", "if at < p.bottom() {", "if at < 0 {",
            mode="^TestPicklesThatAreRefused$",
        ),
        Mutant(
            "memory-unbounded", "what a pickle remembers does not count",
            "pickle.bound", "p.taken > most", "p.taken > most<<10",
            mode="^TestWhatAPickleTakes$|^TestPicklesThatAreRefused$",
        ),
        Mutant(
            "sign-lost", "a negative number of a pickle becomes a large one",
            "pickle.integer", "negative && at < len(raw)", "negative && at < 8",
            mode="^TestValuesOfPickles$",
        ),
    ),
)  # fmt: skip

REPLAYS = Go(
    name="replays",
    folders=("gpu/player",),
    package="gpu/player",
    mode="^TestAReplayIsWhatTheTraceSays$|^TestWhatDoesNotFit|^TestReserved|^TestStreams",
    sound=("^TestAReplay|^TestWhat|^TestADriver|^TestALog|^TestReserved|^TestStreams", "^TestHits|^TestThreads|^TestCalls"),
    mutants=(
        Mutant(
            "failures-freed", "the free of a block that there was no memory for is made",
            "player.recount", "case e.Free && failed:", "case false && failed:",
        ),
        Mutant(
            "first-stream", "all blocks are given back on the first stream",
            "player.inGo", "gpu.Free(handle, p.streams[e.Stream])", "gpu.Free(handle, p.streams[0*e.Stream])",
        ),
        Mutant(
            "peak-of-the-end", "the most that are live are those of the last allocation",
            "player.recount", "p.result.Live = max(p.result.Live, live)", "p.result.Live = live",
        ),
        Mutant(
            "failed-calls-map", "memory that the driver did not give counts as reserved",
            "counter.CreatePhysical", "if err == nil {", "if err == nil || bytes > 0 {",
        ),
        Mutant(
            "destroyed-stays", "memory that the driver has again counts as reserved",
            "counter.DestroyPhysical", "c.went(c.physical[physical])", "c.went(0)",
        ),
        Mutant(
            "cancel-ignored", "a replay goes on when it is cancelled",
            "player.cancelled", "if p.ctx.Err() == nil {", "if p.ctx.Err() == nil || p.done > 0 {",
            mode="^TestAReplayIsCancelled$",
        ),
        Mutant(
            "all-in-go", "calls enter Go that would not in a program",
            "player.play", "if p.options.Pool != nil {", "if p.options.Pool != nil && len(events) == 0 {",
            mode="^TestHits|^TestThreadsOf",
        ),
        Mutant(
            "not-awaited", "a free is made before its block is there",
            "player.play", "e.Free && p.blocks[e.Block].Handle.Load() == 0",
            "e.Free && p.blocks[e.Block].Handle.Load() == 0 && false",
            mode="^TestThreads",
        ),
        Mutant(
            "one-fails-alone", "threads go on, or wait for ever, when one has failed",
            "player.playAll", "p.cancel()", "_ = p.cancel",
            mode="^TestThreadsEnd",
        ),
        Mutant(
            "too-early", "calls come before their time",
            "player.due", "events[count].Time <= now", "events[count].Time <= now+1e6",
            mode="^TestCallsCome",
        ),
        Mutant(
            "waits-are-work", "waits for a call's time count as time in calls",
            "player.play", "from, begun := at, time.Now()", "from, begun := at, p.begun",
            mode="^TestCallsCome",
        ),
    ),
)  # fmt: skip
