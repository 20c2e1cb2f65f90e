# Metadata.

@testset "a dictionary of Symbols that shows the page's entries" begin
    MMSBState() do state
        page = create_page!(state, 10, CPU_LOCATION; metadata = Dict(:name => "weights", :digest => UInt8[0xff, 0x00]))
        metadata = page.metadata
        @test metadata isa AbstractDict{Symbol,Any}
        @test metadata[:name] == "weights" && metadata[:digest] == UInt8[0xff, 0x00]
        @test length(metadata) == 2
        @test Dict(metadata) == Dict{Symbol,Any}(:name => "weights", :digest => UInt8[0xff, 0x00])
        page.metadata[:layer] = "3"
        @test metadata[:layer] == "3"
        @test haskey(metadata, :layer) && !haskey(metadata, :absent)
        @test get(metadata, :absent, 5) == 5
        @test thrown(() -> metadata[:absent]) == KeyError(:absent)
        @test Set(keys(metadata)) == Set([:name, :digest, :layer])
        metadata[:name] = "biases"
        @test metadata[:name] == "biases" && length(metadata) == 3
        @test delete!(metadata, :name) === metadata
        @test !haskey(metadata, :name)
        @test delete!(metadata, :name) === metadata
        @test pop!(metadata, :layer) == "3"
        @test pop!(metadata, :layer, 5) == 5
        @test thrown(() -> pop!(metadata, :layer)) == KeyError(:layer)
        @test isempty(empty!(metadata))
        @test page.epoch == 0
    end
end

@testset "a key that no Symbol can have is kept and not shown" begin
    MMSBState() do state
        page = create_page!(state, 10, CPU_LOCATION)
        blob = MMSB.encode_metadata(["a\0b" => "x", "after" => "1"])
        MMSB.call(LibMMSB.mmsb_page_metadata_import, page, blob, length(blob))
        kept() = "a\0b" in first.(MMSB.all_entries(page.metadata))
        @test Dict(page.metadata) == Dict(:after => "1") && length(page.metadata) == 1
        page.metadata[:bytes] = UInt8[0x61]
        @test Dict(page.metadata) == Dict(:after => "1", :bytes => UInt8[0x61]) && kept()
        @test pop!(page.metadata, :after) == "1" && kept()
        path = joinpath(mktempdir(), "saved")
        save_snapshot(state, path)
        Snapshot(path) do snapshot
            @test snapshot[page.id].metadata == Dict(:bytes => UInt8[0x61])
        end
        @test isempty(empty!(page.metadata)) && !kept()
    end
end

@testset "values come back as what they were" begin
    MMSBState() do state
        page = create_page!(state, 10, CPU_LOCATION)
        values = (
            "", "text", "zero\0within", "größe", "\x01", String(UInt8[0x41]), UInt8[], UInt8[1, 2, 3], UInt8[0x41], UInt8[0xc3],
            Vector{UInt8}("größe"), rand(UInt8, 1000), "x"^100_000,
        )
        for (number, value) in enumerate(values)
            page.metadata[Symbol("key", number)] = value
        end
        for shown in (page, clone_page(state, page.id), get_page(state, page.id))
            @test length(shown.metadata) == length(values)
            for (number, value) in enumerate(values)
                found = shown.metadata[Symbol("key", number)]
                @test typeof(found) === typeof(value) && found == value
            end
        end
        page.metadata[:key8] = "now a text"
        page.metadata[:key2] = UInt8[0x30]
        @test page.metadata[:key8] == "now a text"
        @test page.metadata[:key2] == UInt8[0x30]
        page.metadata[Symbol("größe")] = "key in UTF-8"
        @test page.metadata[Symbol("größe")] == "key in UTF-8"
    end
end

@testset "the order in which the keys were set is kept" begin
    MMSBState() do state
        metadata = create_page!(state, 10, CPU_LOCATION).metadata
        for key in (:c, :a, :b)
            metadata[key] = "value"
        end
        metadata[:a] = "again"
        @test collect(keys(metadata)) == [:c, :a, :b]
    end
end

@testset "entries that other languages made" begin
    MMSBState() do state
        page = create_page!(state, 10, CPU_LOCATION)
        for (key, value) in ("text" => b"plain", "bytes" => UInt8[0xfe])
            MMSB.call(LibMMSB.mmsb_page_metadata_set, page, pointer(key), sizeof(key), pointer(value), length(value))
        end
        @test page.metadata[:text] == "plain"
        @test page.metadata[:bytes] == UInt8[0xfe]
    end
end

@testset "anything else is an ArgumentError and changes nothing" begin
    MMSBState() do state
        page = create_page!(state, 10, CPU_LOCATION)
        metadata = page.metadata
        for (key, value) in (
            ("name", "text"), (1, "text"), (:name, 1), (:name, nothing), (:name, :symbol), (:name, [1, 2]),
            (:name, SubString("text", 2)), (Symbol("julia.byte_keys"), "x"), (Symbol(""), "x"), (Symbol("\xff"), "x"),
            (:name, "text\xff"),
        )
            @test thrown(() -> (metadata[key] = value)) isa ArgumentError
            @test thrown(() -> create_page!(state, 10, CPU_LOCATION; metadata = Dict(key => value))) isa ArgumentError
        end
        @test thrown(() -> metadata["name"]) isa ArgumentError
        @test isempty(metadata)
        @test length(state) == 1
    end
end

@testset "many tasks set entries of one page" begin
    MMSBState() do state
        page = create_page!(state, 10, CPU_LOCATION)
        tasks = [Threads.@spawn(page.metadata[Symbol("key", n)] = isodd(n) ? "text" : UInt8[0x41]) for n in 1:100]
        foreach(wait, tasks)
        @test length(page.metadata) == 100
        @test all(page.metadata[Symbol("key", n)] == (isodd(n) ? "text" : UInt8[0x41]) for n in 1:100)
    end
end

@testset "a page whose metadata cannot be stored is not made" begin
    MMSBState() do state
        unfit = Dict(Symbol("") => "empty key")
        @test thrown(() -> create_page!(state, 10, CPU_LOCATION; metadata = unfit)) isa ArgumentError
        @test length(state) == 0
    end
end
