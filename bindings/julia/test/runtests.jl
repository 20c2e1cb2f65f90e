# All tests of the package, with the standard library's Test and nothing else. The last line is "N passed, M failed".

using MMSB
using MMSB: LibMMSB
using Test

const TEST_FILES = (
    "loading.jl", "abi.jl", "names.jl", "states.jl", "pages.jl", "metadata.jl", "deltas.jl", "dependencies.jl",
    "allocator.jl", "statistics.jl", "devicesync.jl", "tickets.jl", "threads.jl", "snapshots.jl", "journal.jl", "devices.jl",
    "garbage.jl",
)

# Number of live objects of each kind in the process.
const KINDS = (
    LibMMSB.MMSB_KIND_PAGE, LibMMSB.MMSB_KIND_CONTEXT, LibMMSB.MMSB_KIND_TICKET, LibMMSB.MMSB_KIND_DELTA,
    LibMMSB.MMSB_KIND_MEMORY, LibMMSB.MMSB_KIND_SNAPSHOT, LibMMSB.MMSB_KIND_STREAM, LibMMSB.MMSB_KIND_BLOCK,
    LibMMSB.MMSB_KIND_USE, LibMMSB.MMSB_KIND_RUNTIME, LibMMSB.MMSB_KIND_RESERVATION,
)

function live_objects(kind)
    count = Ref{UInt64}(0)
    MMSB.check(LibMMSB.mmsb_debug_live_objects(kind, count))
    return Int(count[])
end

live_objects() = map(live_objects, KINDS)

# Whether something comes to be true, however slow or loaded the machine is; only what never comes ends after ten minutes.
function comes(f)
    deadline = time() + 600
    while !f()
        time() < deadline || return false
        sleep(0.01)
    end
    return true
end

# Whether nothing is alive any more. What a thread was about to give back, or a collection has not found yet, may take a while.
function nothing_lives()
    return comes() do
        all(==(0), live_objects()) || (GC.gc(); all(==(0), live_objects()))
    end
end

# The error that f throws.
function thrown(f)
    try
        f()
    catch failure
        return failure
    end
    return nothing
end

# Whether f throws an error of this type and code, with a text.
function fails(f, type, code)
    failure = thrown(f)
    return failure isa type && failure.code == code && !isempty(failure.message)
end

passes(set::Test.DefaultTestSet) = set.n_passed + mapreduce(passes, +, set.results; init = 0)
passes(result) = 0

# How many tests of a file passed and failed.
function run_file(file)
    try
        set = @testset "$file" begin
            include(file)
            @test nothing_lives()
        end
        return passes(set), 0
    catch failure
        failure isa Test.TestSetException || rethrow()
        return failure.pass, failure.fail + failure.error
    end
end

results = map(run_file, TEST_FILES)
passed, failed = sum(first, results), sum(last, results)
println("$passed passed, $failed failed")
exit(failed == 0 ? 0 : 1)
