"""
The C functions of mmsb.h, one Julia function each under the same name, with the constants and structs they need: abi.jl,
which is generated. Nothing is added: statuses come back as numbers, handles are numbers, and who passes a pointer keeps its
memory alive. No other part of the package calls the library.
"""
module LibMMSB

using Libdl

# The SONAME, not a path: `load` has opened the file by then, and the dynamic linker finds it under this name.
const libmmsb = "libmmsb.so.0"

include("abi.jl")

"The file in which the package's build step leaves the library's path."
const BUILT = abspath(joinpath(@__DIR__, "..", "deps", "library-path.txt"))

"""
The library's file: what the environment variable MMSB_LIBRARY names, else what the package's build step has found or built, else
the one in the build tree.
"""
function library_path()
    haskey(ENV, "MMSB_LIBRARY") && return abspath(ENV["MMSB_LIBRARY"])
    isfile(BUILT) && return readline(BUILT)
    return abspath(joinpath(@__DIR__, "..", "..", "..", "build", "libmmsb.so"))
end

"Opens the library and checks its ABI number and its struct sizes."
function load()
    path = library_path()
    isfile(path) || error(
        "MMSB: $path does not exist; build the library with `make` or `Pkg.build(\"MMSB\")`, or set MMSB_LIBRARY to its path",
    )
    library = dlopen(path)
    dlsym(library, :mmsb_abi_version; throw_error = false) === nothing &&
        error("MMSB: $path is not libmmsb: it has no function mmsb_abi_version")
    found = mmsb_abi_version()
    found == MMSB_ABI_VERSION ||
        error("MMSB: $path has ABI version $found, $MMSB_ABI_VERSION expected")
    for (structure, type) in STRUCTS
        size = mmsb_sizeof(structure)
        size == sizeof(type) ||
            error("MMSB: $type has $size bytes in $path, $(sizeof(type)) expected: library and package are of different releases")
    end
    return nothing
end

# Adopted memory is given back by a call of a C function on any thread, also on ones that Julia does not know: by sem_post, whose
# argument is a semaphore that Julia asks.
const SEMAPHORE_BYTES = 64    # of glibc's sem_t: 32; zeros are what sem_init makes of it

"The C function that posts the semaphore at its first argument."
semaphore_post() = cglobal(:sem_post)

"Whether a semaphore was posted."
semaphore_is_posted(semaphore::Ptr{Cvoid}) = ccall(:sem_trywait, Cint, (Ptr{Cvoid},), semaphore) == 0

for name in names(@__MODULE__; all = true)
    startswith(string(name), r"mmsb_|MMSB_") && @eval export $name
end

end
