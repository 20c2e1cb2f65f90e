# LibMMSB says the same as mmsb.h: functions, their arguments, structs, constants.

const HEADER = replace(read(joinpath(@__DIR__, "..", "..", "..", "include", "mmsb.h"), String), r"/\*.*?\*/"s => "")
const SOURCE = read(joinpath(@__DIR__, "..", "src", "LibMMSB.jl"), String)

const C_TYPES = Dict(
    "void" => Cvoid, "char" => UInt8, "size_t" => Csize_t, "int32_t" => Int32, "uint32_t" => UInt32, "uint64_t" => UInt64,
    "uint8_t" => UInt8, "int64_t" => Int64,
)

# The Julia type of a C declaration's type. A text that comes back is a Cstring.
function julia_type(declared)
    words = split(replace(replace(declared, "const" => ""), "*" => " * "))
    name = String(first(words))
    type = get(() -> getfield(LibMMSB, Symbol(name)), C_TYPES, name)
    return foldl((inner, _) -> Ptr{inner}, filter(==("*"), words); init = type)
end

# (name, type) of a parameter or field.
function declaration(text)
    text = strip(text)
    occursin("(*", text) && return match(r"\(\*(\w+)\)", text)[1], Ptr{Cvoid}
    parts = match(r"^(.*?)(\w+)(?:\[(\d+)\])?$"s, text)
    type = julia_type(parts[1])
    return parts[2], parts[3] === nothing ? type : NTuple{parse(Int, parts[3]),type}
end

header_functions = Dict(
    m[2] => (
        julia_type(m[1]),
        strip(m[3]) == "void" ? [] : map(declaration, split(m[3], ",")),
    ) for m in eachmatch(r"MMSB_API\s+([^;{]*?)(mmsb_\w+)\(([^)]*)\)\s*;"s, HEADER)
)

# The parts of a list of arguments in Julia.
parts(list) = filter(!isempty, map(strip, split(list, ",")))
evaluate(type) = Core.eval(LibMMSB, Meta.parse(type))
function typed_argument(text)
    name, type = split(text, "::")
    return name, evaluate(type)
end

wrapped_functions = Dict(
    m[2] => (evaluate(m[4]), map(typed_argument, parts(m[3])), parts(m[1])) for
    m in eachmatch(r"\nmmsb_\w+\(([^)]*)\) =\s*@ccall libmmsb\.(mmsb_\w+)\(([^)]*)\)::(\S+)"s, SOURCE)
)

@testset "functions" begin
    @test length(header_functions) > 50
    @test keys(wrapped_functions) == keys(header_functions)
    for (name, (result, parameters)) in header_functions
        wrapped_result, wrapped_parameters, signature = wrapped_functions[name]
        @test (name, wrapped_result) == (name, result == Ptr{UInt8} ? Cstring : result)
        @test (name, wrapped_parameters) == (name, parameters)
        @test (name, signature) == (name, map(first, parameters))
        wrapper = getfield(LibMMSB, Symbol(name))
        @test first(methods(wrapper)).nargs - 1 == length(parameters)
    end
    exported = filter(name -> startswith(string(name), "mmsb_") && getfield(LibMMSB, name) isa Function, names(LibMMSB))
    @test Set(map(string, exported)) == keys(header_functions)
end

@testset "no other file calls the library" begin
    for file in readdir(joinpath(@__DIR__, "..", "src"))
        file == "LibMMSB.jl" && continue
        @test !occursin("ccall", read(joinpath(@__DIR__, "..", "src", file), String))
    end
end

@testset "structs" begin
    structs = collect(eachmatch(r"typedef struct (\w+) \{(.*?)\} (\w+);"s, HEADER))
    @test length(structs) == length(LibMMSB.STRUCTS)
    for found in structs
        type = getfield(LibMMSB, Symbol(found[3]))
        fields = map(declaration, filter(!isempty, map(strip, split(found[2], ";"))))
        @test collect(zip(map(string, fieldnames(type)), fieldtypes(type))) == fields
        number = getfield(LibMMSB, Symbol(uppercase(replace(found[1], "mmsb_" => "MMSB_STRUCT_"))))
        @test (number => type) in LibMMSB.STRUCTS
        @test LibMMSB.mmsb_sizeof(number) == sizeof(type)
    end
    @test LibMMSB.mmsb_sizeof(9999) == 0
end

@testset "constants" begin
    constants = collect(eachmatch(r"^#define (MMSB_\w+) \(?(-?\d+|UINT64_MAX)\)?\s*$"m, HEADER))
    @test length(constants) > 60
    for constant in constants
        startswith(constant[1], "MMSB_VERSION_") && continue
        value = constant[2] == "UINT64_MAX" ? typemax(UInt64) : parse(Int, constant[2])
        @test (constant[1], getfield(LibMMSB, Symbol(constant[1]))) == (constant[1], value)
    end
end
