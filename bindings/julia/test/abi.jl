# What is generated from mmsb.h, as Julia lays it out. `make check` knows whether it is generated anew.

# The lines of abi/libmmsb.layout: each struct with its size, each field (struct.field) with its offset and size, as C has them.
const LAYOUT = Dict(
    words[1] => map(word -> parse(Int, word), words[2:end]) for
    words in map(split, filter(!startswith("#"), readlines(joinpath(@__DIR__, "..", "..", "..", "abi", "libmmsb.layout"))))
)

# The same of a Julia type.
function layout_of(name, type)
    fields = ("$name.$(fieldname(type, i))" => [fieldoffset(type, i), sizeof(fieldtype(type, i))] for i in 1:fieldcount(type))
    return Dict{String,Vector{Int}}(name => [sizeof(type)], fields...)
end

@testset "structs lie as in C" begin
    found = merge((layout_of(string(nameof(type)), type) for (_, type) in LibMMSB.STRUCTS)...)
    @test found == LAYOUT
    @test length(LibMMSB.STRUCTS) == 52
    for (number, type) in LibMMSB.STRUCTS
        @test LibMMSB.mmsb_sizeof(number) == sizeof(type)
    end
    @test LibMMSB.mmsb_sizeof(9999) == 0
end

struct ReversedRun
    length::UInt64
    offset::UInt64
end

@testset "a struct that lies otherwise is found" begin
    @test issubset(layout_of("mmsb_run_t", LibMMSB.mmsb_run_t), LAYOUT)
    @test !issubset(layout_of("mmsb_run_t", ReversedRun), LAYOUT)
end

@testset "every exported function is in the library" begin
    functions = filter(name -> startswith(string(name), "mmsb_") && getfield(LibMMSB, name) isa Function, names(LibMMSB))
    @test length(functions) > 50
    library = LibMMSB.dlopen(LibMMSB.libmmsb)
    for name in functions
        @test LibMMSB.dlsym(library, name; throw_error = false) !== nothing
    end
end

@testset "no other file calls the library" begin
    for file in readdir(joinpath(@__DIR__, "..", "src"))
        file == "abi.jl" && continue
        text = read(joinpath(@__DIR__, "..", "src", file), String)
        @test !occursin("ccall", replace(text, "ccall(:sem_trywait, " => ""))    # of the C library
    end
end
