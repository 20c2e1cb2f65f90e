# All tests of the package, or those of the files that the arguments name, with the standard library's Test and nothing else. The
# last line is "N passed, M failed".

using MMSB
using LinearAlgebra
using MMSB: LibMMSB
using Random
using Test
using Test: DefaultTestSet

const TEST_FILES = (
    "loading.jl", "abi.jl", "names.jl", "states.jl", "pages.jl", "metadata.jl", "deltas.jl", "copies.jl", "dependencies.jl",
    "memory.jl", "allocator.jl", "statistics.jl", "devicesync.jl", "tickets.jl", "threads.jl", "snapshots.jl", "journal.jl",
    "commands.jl", "stores.jl", "longcalls.jl", "groups.jl", "devices.jl", "sleep.jl", "plugins.jl",
    "tensors.jl", "unifiedmemory.jl", "gpukernels.jl", "guard.jl", "garbage.jl",
)

# Number of live objects of each kind in the process.
const KINDS = (
    LibMMSB.MMSB_KIND_PAGE, LibMMSB.MMSB_KIND_CONTEXT, LibMMSB.MMSB_KIND_TICKET, LibMMSB.MMSB_KIND_DELTA,
    LibMMSB.MMSB_KIND_MEMORY, LibMMSB.MMSB_KIND_SNAPSHOT, LibMMSB.MMSB_KIND_STREAM, LibMMSB.MMSB_KIND_BLOCK,
    LibMMSB.MMSB_KIND_USE, LibMMSB.MMSB_KIND_RUNTIME, LibMMSB.MMSB_KIND_RESERVATION,
    LibMMSB.MMSB_KIND_CAPTURE, LibMMSB.MMSB_KIND_COMMANDS, LibMMSB.MMSB_KIND_TENSOR,
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

# Bytes that no other seed gives.
saved_pattern(seed, size) = UInt8[(seed * 131 + i * 7 + i ÷ 251) % 256 for i in 1:size]

with_devices(f) = MMSBState(f; simulate = :always, simulated_devices = 2, simulated_memory = 64 << 20)

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

# Holds the sets of all files. The others are Test's own, which throw only where nothing is around them.
struct Suite <: Test.AbstractTestSet
    results::Vector{Any}
    Suite(description) = new([])
end
Test.record(suite::Suite, result) = push!(suite.results, result)
Test.finish(suite::Suite) = suite

# How many tests passed and failed. A set that has no other in it is one test, however often it says @test; one that has others
# counts only by what went wrong in itself.
function count_tests(set)
    inner = filter(result -> result isa Test.AbstractTestSet, set.results)
    wrong = any(result -> result isa Union{Test.Fail,Test.Error}, set.results)
    own = [isempty(inner) && !wrong, wrong]
    return mapreduce(count_tests, +, inner; init = own)
end

# All tests draw from one seed, which a run that fails prints.
const SEED = parse(UInt32, get(() -> string(rand(UInt32)), ENV, "MMSB_SEED"))
Random.seed!(SEED)

unknown = setdiff(ARGS, TEST_FILES)
isempty(unknown) || error("no test files: " * join(unknown, ", "))
suite = @testset Suite "the package" begin
    for file in (isempty(ARGS) ? TEST_FILES : filter(in(ARGS), TEST_FILES))
        seconds = @elapsed set = @testset DefaultTestSet "$file" begin
            include(file)
            @testset "nothing is left alive" begin
                @test nothing_lives()
            end
        end
        println(rpad(file, 20), sum(count_tests(set)), " tests, ", round(seconds; digits = 1), " s")
    end
end
passed, failed = count_tests(suite)
failed == 0 || println("MMSB_SEED=$SEED repeats this run")
println("$passed passed, $failed failed")
exit(failed == 0 && passed > 0 ? 0 : 1)
