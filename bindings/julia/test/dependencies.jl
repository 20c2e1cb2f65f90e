# Dependencies between pages.

@testset "parents and children" begin
    MMSBState() do state
        a, b, c = create_pages!(state, 10, 3)
        @test add_dependency!(state, a, b) == b
        @test add_dependency!(state, b.id, c.id) == c
        @test add_dependency!(state, a, c.id) == c
        @test get_parents(c) == [b, a]
        @test get_children(a) == [b, c]
        @test get_parents(state, b.id) == [a]
        @test get_children(state, b) == [c]
        @test get_parents(a) == Page[] && get_children(c) == Page[]
        @test remove_dependency!(state, a, c) == c
        @test get_parents(c) == [b]
        @test get_children(a) == [b]
        delete_page!(state, b.id)
        @test get_children(a) == Page[]
        @test get_parents(c) == Page[]
    end
end

@testset "what cannot be is refused and changes nothing" begin
    MMSBState() do state
        a, b, c = create_pages!(state, 10, 3)
        add_dependency!(state, a, b)
        add_dependency!(state, b, c)
        @test fails(() -> add_dependency!(state, c, a), MMSBError, 10)
        @test fails(() -> add_dependency!(state, a, a), MMSBError, 10)
        @test fails(() -> add_dependency!(state, a, b), MMSBError, 21)
        @test fails(() -> remove_dependency!(state, a, c), MMSBError, 20)
        @test fails(() -> add_dependency!(state, a, PageID(999_999)), PageNotFoundError, 20)
        @test fails(() -> get_parents(state, PageID(999_999)), PageNotFoundError, 20)
        MMSBState() do other
            foreign = create_page!(other, 10, CPU_LOCATION)
            @test fails(() -> add_dependency!(state, a, foreign), MismatchError, 17)
        end
        @test get_children(a) == [b] && get_parents(a) == Page[]
    end
end

@testset "a page with many children" begin
    MMSBState() do state
        pages = create_pages!(state, 10, 500)
        foreach(child -> add_dependency!(state, pages[1], child), pages[2:end])
        @test get_children(pages[1]) == pages[2:end]
    end
end
