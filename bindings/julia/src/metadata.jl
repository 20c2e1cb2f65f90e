# Metadata of pages.
#
# The library keeps bytes under UTF-8 keys. A value that is valid UTF-8 is read as String and any other as Vector{UInt8};
# the keys of byte values that happen to be valid UTF-8 are listed in an entry of their own, so that every value is read
# with the type it was set with, from clones and files too. Other languages see that entry, too.

const BYTE_KEYS = "julia.byte_keys"
const BYTE_KEYS_SEPARATOR = '\0'    # no Symbol contains it

"""
The current metadata of a page, as a dictionary. Keys are Symbols, values are of type String or Vector{UInt8}; keys are not empty,
and keys and Strings are valid UTF-8. Anything else throws an ArgumentError. Keys with a zero character, which programs in other
languages can set and no Symbol can have, are not in the dictionary; changes of other keys keep them, and `empty!` removes them.
"""
struct PageMetadata <: AbstractDict{Symbol,Any}
    page::Page
end

function check_metadata_key(key::Symbol)
    key === Symbol(BYTE_KEYS) && throw(ArgumentError("the metadata key $BYTE_KEYS is reserved for the package"))
    name = String(key)
    !isempty(name) && isvalid(name) ||
        throw(ArgumentError("metadata keys are valid UTF-8 of at least 1 byte, not $(repr(name))"))
    return nothing
end
check_metadata_key(key) = throw(ArgumentError("metadata keys are Symbols, not $(repr(key))"))

check_metadata_value(value::Vector{UInt8}) = nothing
check_metadata_value(value::String) = isvalid(value) ? nothing :
    throw(ArgumentError("metadata values of type String are valid UTF-8; bytes are set as Vector{UInt8}"))
check_metadata_value(value) =
    throw(ArgumentError("metadata values are of type String or Vector{UInt8}, not $(typeof(value))"))

"Whether a value would be read with the other type if its key were not listed."
needs_listing(value::Vector{UInt8}) = isvalid(String, value)
needs_listing(value::String) = false

stored_value(bytes, listed) = !listed && isvalid(String, bytes) ? String(bytes) : bytes

function encode_metadata(entries)
    blob = IOBuffer()
    write(blob, htol(UInt32(length(entries))))
    for (key, value) in entries, part in (key, value)
        write(blob, htol(UInt32(sizeof(part))), part)
    end
    return take!(blob)
end

"The entries of a page's blob: keys as String, values as bytes, in their order."
function decode_metadata(bytes::Vector{UInt8})
    blob = IOBuffer(bytes)
    part() = read(blob, Int(ltoh(read(blob, UInt32))))
    return [String(part()) => part() for _ in 1:ltoh(read(blob, UInt32))]
end

"`entries` of a program as the library stores them, checked."
function stored_entries(entries)
    for (key, value) in entries
        check_metadata_key(key)
        check_metadata_value(value)
    end
    return with_byte_keys(Pair{String,Any}[String(key) => value for (key, value) in entries])
end

"Entries with the list of byte keys if it is not empty."
function with_byte_keys(entries)
    listed = String[key for (key, value) in entries if needs_listing(value) && has_symbol(key)]
    return isempty(listed) ? entries : push!(entries, BYTE_KEYS => join(listed, BYTE_KEYS_SEPARATOR))
end

"Whether a Symbol can have this name."
has_symbol(name::String) = !occursin('\0', name)

"Replaces all metadata of a page by the result of `stored_entries` or `with_byte_keys`."
function import_metadata!(page::Page, stored)
    blob = encode_metadata(stored)
    call(mmsb_page_metadata_import, page, blob, length(blob))
end

"All entries at one moment, in the order in which the keys were first set."
entries(metadata::PageMetadata) = shown_entries(all_entries(metadata))

all_entries(metadata::PageMetadata) = read_entries(fill_list(UInt8, mmsb_page_metadata_export, metadata.page))

"Those of the entries whose keys are Symbols."
shown_entries(entries) = Pair{Symbol,Any}[Symbol(key) => value for (key, value) in entries if has_symbol(key)]

"The entries of a blob, each value with the type it was set with."
function read_entries(blob::Vector{UInt8})
    stored = isempty(blob) ? Pair{String,Vector{UInt8}}[] : decode_metadata(blob)
    listed = String[]
    for (key, value) in stored
        key == BYTE_KEYS && append!(listed, split(String(copy(value)), BYTE_KEYS_SEPARATOR))
    end
    return Pair{String,Any}[key => stored_value(value, key in listed) for (key, value) in stored if key != BYTE_KEYS]
end

Base.length(metadata::PageMetadata) = length(entries(metadata))

function Base.iterate(metadata::PageMetadata, (all, next) = (entries(metadata), 1))
    return next > length(all) ? nothing : (all[next], (all, next + 1))
end

function Base.get(metadata::PageMetadata, key, default)
    check_metadata_key(key)
    for (name, value) in entries(metadata)
        name === key && return value
    end
    return default
end

function Base.getindex(metadata::PageMetadata, key)
    value = get(metadata, key, nothing)
    value === nothing && throw(KeyError(key))
    return value
end

Base.haskey(metadata::PageMetadata, key) = get(metadata, key, nothing) !== nothing

"Applies `change!(all_entries)` as one change, atomic among the tasks of this process, and returns its result."
function change_metadata!(change!, metadata::PageMetadata)
    page = metadata.page
    return lock(owner(page).lock) do
        changed = all_entries(metadata)
        result = change!(changed)
        import_metadata!(page, with_byte_keys(changed))
        return result
    end
end

function Base.setindex!(metadata::PageMetadata, value, key)
    check_metadata_key(key)
    check_metadata_value(value)
    name = String(key)
    change_metadata!(metadata) do all
        position = findfirst(entry -> first(entry) == name, all)
        position === nothing ? push!(all, name => value) : (all[position] = name => value)
    end
    return metadata
end

function Base.pop!(metadata::PageMetadata, key, default)
    check_metadata_key(key)
    name = String(key)
    return change_metadata!(metadata) do all
        position = findfirst(entry -> first(entry) == name, all)
        position === nothing ? default : last(splice!(all, position))
    end
end

function Base.pop!(metadata::PageMetadata, key)
    value = pop!(metadata, key, nothing)
    value === nothing && throw(KeyError(key))
    return value
end

function Base.delete!(metadata::PageMetadata, key)
    pop!(metadata, key, nothing)
    return metadata
end

function Base.empty!(metadata::PageMetadata)
    change_metadata!(empty!, metadata)
    return metadata
end
