# Dependencies between pages. Pages are given as Page or by their ids.

"""
    add_dependency!(state, parent, child)
    add_dependency!(parent, child)

Adds an edge: `child` depends on `parent`. Throws if the edge exists or would close a cycle. Returns the child.
"""
function add_dependency!(state::MMSBState, parent, child)
    above, below = find_page(state, parent), find_page(state, child)
    call(mmsb_page_dependency_add, above, handle(below))
    return below
end

"""
    remove_dependency!(state, parent, child)
    remove_dependency!(parent, child)

Removes the edge, which must exist. Returns the child.
"""
function remove_dependency!(state::MMSBState, parent, child)
    above, below = find_page(state, parent), find_page(state, child)
    call(mmsb_page_dependency_remove, above, handle(below))
    return below
end

add_dependency!(parent::Page, child::Page) = add_dependency!(owner(parent), parent, child)
remove_dependency!(parent::Page, child::Page) = remove_dependency!(owner(parent), parent, child)

"""
    get_parents(page)::Vector{Page}
    get_parents(state, page)

The pages that this page depends on, in the order in which the dependencies were added.
"""
get_parents(page::Page) = related_pages(mmsb_page_parents, page)
get_parents(state::MMSBState, page) = get_parents(find_page(state, page))

"""
    get_children(page)::Vector{Page}
    get_children(state, page)

The pages that depend on this page, in the order in which the dependencies were added.
"""
get_children(page::Page) = related_pages(mmsb_page_children, page)
get_children(state::MMSBState, page) = get_children(find_page(state, page))

related_pages(list::F, page) where {F} = Page[Page(owner(page), related) for related in fill_list(mmsb_page_t, list, page)]
