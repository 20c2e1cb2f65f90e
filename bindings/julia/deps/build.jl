# What `Pkg.build("MMSB")` runs: finds the library, or builds it, and leaves its path in library-path.txt. In this order: the file
# that MMSB_LIBRARY names; one that the dynamic linker finds on the system; the build tree of the checkout that the package lies
# in, made up to date. Each must be of the package's ABI; what MMSB_LIBRARY names and is not is an error, and what the system has
# and is not is passed over.

using Libdl

const BINDING = abspath(joinpath(@__DIR__, "..", "src", "LibMMSB.jl"))
const CHECKOUT = abspath(joinpath(@__DIR__, "..", "..", ".."))

"Why the package cannot use a library, in one line, or `nothing`. A process of its own loads it, so that another can come after."
function fault(path)
    code = "include(popfirst!(ARGS)); try LibMMSB.load() catch e; print(stderr, sprint(showerror, e)); exit(1) end"
    command = `$(Base.julia_cmd()) --startup-file=no --compile=min -e $code $BINDING`
    said = IOBuffer()
    ended = run(pipeline(ignorestatus(setenv(command, merge(ENV, Dict("MMSB_LIBRARY" => path)))); stderr = said))
    return success(ended) ? nothing : first(split(String(take!(said)) * "\n", '\n'))
end

"The library of the system, as the dynamic linker finds it, or `nothing`."
function of_system()
    library = dlopen("libmmsb.so.0"; throw_error = false)
    return library === nothing ? nothing : realpath(dlpath(library))
end

"The library of the checkout, made up to date."
function of_checkout()
    isfile(joinpath(CHECKOUT, "include", "mmsb.h")) && isfile(joinpath(CHECKOUT, "Makefile")) || error(
        "MMSB: no libmmsb.so.0 on this system fits, and the package does not lie in a checkout of libmmsb, from which it could " *
        "be built. Install the library (a Debian package, `make install`), or set MMSB_LIBRARY to its path, and build again; " *
        "or take the package by Pkg.develop from a checkout.",
    )
    @info "MMSB: building the library in $CHECKOUT by `make lib`, which takes minutes the first time"
    # A make around this one is another matter.
    apart = filter(variable -> !(first(variable) in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")), collect(ENV))
    try
        run(setenv(`make -C $CHECKOUT lib`, Dict(apart)))
    catch
        error("MMSB: `make -C $CHECKOUT lib` failed: what it says is above, or in the log of Pkg.build")
    end
    return joinpath(CHECKOUT, "build", "libmmsb.so")
end

function find()
    if haskey(ENV, "MMSB_LIBRARY")
        path = abspath(ENV["MMSB_LIBRARY"])
        why = fault(path)
        why === nothing || error("$why (MMSB_LIBRARY names it: correct it or unset it)")
        return path
    end
    path = of_system()
    if path !== nothing
        why = fault(path)
        why === nothing && return path
        @warn "the library of the system is passed over: $why"
    end
    path = of_checkout()
    why = fault(path)
    why === nothing || error(why)
    return path
end

path = find()
write(joinpath(@__DIR__, "library-path.txt"), path, "\n")
@info "MMSB: the library is $path"
