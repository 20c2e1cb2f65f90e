# Finding the library, in a process of its own.

const PACKAGE = dirname(@__DIR__)

function output_with_library(path, code)
    command = `$(Base.julia_cmd()) --startup-file=no --project=$PACKAGE -e $code`
    command = ignorestatus(setenv(command, merge(ENV, Dict("MMSB_LIBRARY" => path))))
    output = IOBuffer()
    ended = run(pipeline(command; stdout = output, stderr = output))
    return success(ended), String(take!(output))
end

@testset "the library is the one that MMSB_LIBRARY names" begin
    loaded, output = output_with_library(
        LibMMSB.library_path(), "using MMSB; print(unsafe_string(MMSB.LibMMSB.mmsb_version()))",
    )
    @test loaded
    @test output == unsafe_string(LibMMSB.mmsb_version())
end

@testset "a missing library is named, with what helps" begin
    loaded, output = output_with_library("/nowhere/libmmsb.so", "using MMSB")
    @test !loaded
    @test occursin("/nowhere/libmmsb.so", output)
    @test occursin("make", output)
end

@testset "exit with an open state, a pinned page and running work" begin
    ended, output = output_with_library(
        LibMMSB.library_path(),
        """
        using MMSB
        state = MMSBState()
        page = create_page!(state, 100, CPU_LOCATION)
        ticket = async_create_pages!(state, 64, 100_000)
        with_page(bytes -> exit(0), page)
        """,
    )
    @test ended
    @test output == ""
end

@testset "exceptions pass through compiled functions" begin
    caught() =
        try
            throw(KeyError(1))
        catch failure
            failure
        end
    @test caught() == KeyError(1)
    divided(a, b) =
        try
            div(a, b)
        catch failure
            failure
        end
    @test divided(1, 0) == DivideError()
    overflowing(n) = 1 + overflowing(n + 1)
    @test thrown(() -> overflowing(1)) isa StackOverflowError
end
