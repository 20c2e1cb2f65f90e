# What the package exports.

public = filter(!=(:MMSB), names(MMSB))
const PARTS = (MMSB.PageAllocator, MMSB.DeviceSync, MMSB.DeviceFallback, MMSB.UnifiedMemory, MMSB.GPUKernels)

@testset "no name of Base or Core is exported" begin
    @test isempty(intersect(public, union(names(Base), names(Core))))
end

@testset "the names of every module are exported by MMSB" begin
    for part in PARTS, name in names(part)
        @test name in public
        @test getfield(MMSB, name) === getfield(part, name)
    end
end

documented(name) =
    any(part -> haskey(Docs.meta(part), Docs.Binding(part, name)), (MMSB, PARTS...))

@testset "every public name has its text and appears in the tests" begin
    tests = join(read(joinpath(@__DIR__, file), String) for file in TEST_FILES)
    for name in public
        @test (name, occursin(string(name), tests)) == (name, true)
        name in (:PageID, :CPU_LOCATION, :GPU_LOCATION, :UNIFIED_LOCATION, :PINNED_LOCATION, :DISK_LOCATION) && continue
        @test (name, documented(name)) == (name, true)
    end
end
