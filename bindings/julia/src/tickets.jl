# Tickets: asynchronous work.

"""
    Ticket

Asynchronous work of the library. `isready(ticket)`: whether it has ended. `wait(ticket; timeout)` waits for its end,
`fetch(ticket)` waits and returns the result. `progress(ticket)`: how much is done. `cancel!(ticket)` asks it to stop;
`close(ticket)` does that and waits until it has stopped.
"""
mutable struct Ticket
    handle::Threads.Atomic{UInt64}    # 0 once it is closed
    kept::Any                         # what the work reads and writes
    result::Function                  # makes the result when the work has succeeded

    Ticket(handle::UInt64, kept, result) = finalizer(destroy_ticket, new(Threads.Atomic{UInt64}(handle), kept, result))
end

"Calls `f(work)` with the options of work that begins when the work of these tickets has succeeded."
function with_work(f, after::AbstractVector{Ticket})
    waited_for = UInt64[handle(ticket) for ticket in after]
    work = initialised(mmsb_work_options_t, mmsb_work_options_init)
    work[] = with_fields(work[], (after = pointer(waited_for), after_count = UInt64(length(waited_for))))
    return GC.@preserve waited_for after f(work)
end

destroy_ticket(ticket) = mmsb_ticket_destroy(Threads.atomic_xchg!(ticket.handle, UInt64(0)))

owner(ticket::Ticket) = ticket

function handle(ticket::Ticket)
    value = ticket.handle[]
    value == 0 && reject(MMSB_E_STALE_HANDLE, "the ticket is closed")
    return value
end

# Tickets of work that may still write to its memory. They are kept from the garbage collector until the work has ended.
const running = Ticket[]
const running_lock = ReentrantLock()

function keep_while_running(ticket::Ticket)
    lock(running_lock) do
        filter!(!isready, running)
        push!(running, ticket)
    end
    return ticket
end

# The work of a closed ticket has ended.
Base.isready(ticket::Ticket) = ticket.handle[] == 0 || fill_reference(Int32, mmsb_ticket_poll, ticket) == 1

# A wait in the library takes at most this long: during a call Julia's garbage collector waits, and so do tasks of this thread.
const WAIT_SLICE_NS = UInt64(1_000_000)

"Waits until the work has ended while other tasks run; `false` if the time is over first."
function await_end(ticket::Ticket, timeout::Real)
    deadline = time() + timeout
    while !isready(ticket)
        time() < deadline || return false
        kept = owner(ticket)
        GC.@preserve kept mmsb_ticket_wait(handle(ticket), WAIT_SLICE_NS)
        yield()
    end
    lock(() -> filter!(!isready, running), running_lock)
    return true
end

"""
    wait(ticket; timeout = Inf)

Waits for the end of the work, at most `timeout` seconds; other tasks run meanwhile. Throws the error of the work, or a
`WaitTimeoutError`.
"""
function Base.wait(ticket::Ticket; timeout::Real = Inf)
    await_end(ticket, timeout) || reject(MMSB_E_TIMEOUT, "the work has not ended after $timeout seconds and goes on")
    call(mmsb_ticket_wait, ticket, 0)
    return nothing
end

function Base.fetch(ticket::Ticket)
    wait(ticket)
    return ticket.result()
end

"""
    progress(ticket) -> (done, total)

How much of the work is done, in its units (pages, bytes); `total` is 0 while it is not known.
"""
function progress(ticket::Ticket)
    done, total = Ref{UInt64}(0), Ref{UInt64}(0)
    call(mmsb_ticket_progress, ticket, done, total)
    return Int(done[]), Int(total[])
end

"""
    event_descriptor(ticket)::RawFD

A file descriptor that becomes readable when the work has ended, for `FileWatching.poll_fd` and other event loops. It belongs to
the ticket: do not read or close it.
"""
event_descriptor(ticket::Ticket) = RawFD(fill_reference(Int32, mmsb_ticket_eventfd, ticket))

"""
    cancel!(ticket)

Asks the work to stop, without waiting for it. It ends with a `WorkCancelledError` and has then changed nothing, unless it was
already done.
"""
function cancel!(ticket::Ticket)
    call(mmsb_ticket_cancel, ticket)
    return ticket
end

function Base.close(ticket::Ticket)
    isready(ticket) || cancel!(ticket)
    await_end(ticket, Inf)
    lock(() -> check(destroy_ticket(ticket)), running_lock)
end

"Asks the work to stop and waits for its end; whether it had succeeded before."
function stop(ticket::Ticket)
    isready(ticket) || cancel!(ticket)
    await_end(ticket, Inf)
    code = Ref{mmsb_status_t}()
    call(mmsb_ticket_status, ticket, code, C_NULL, 0)
    return code[] == MMSB_OK
end

Base.show(io::IO, ticket::Ticket) = print(io, "Ticket(", isready(ticket) ? "ended" : "running", ")")

# Long calls, each of which can run here or be started.

"""
A long call of the library. Its two forms take arguments, options if the call has some of its own, the options of work, and
results, in this order.
"""
Base.@kwdef struct Work
    blocking::Function
    starting::Function
    arguments::Tuple
    options::Union{Base.RefValue,Nothing} = nothing
    results::Tuple = ()
    kept::Any                           # what the work reads and writes
    result::Function = () -> nothing    # makes the result of work that has succeeded
    undo::Function = () -> nothing      # ends a result that Ctrl-C keeps from the caller
end

"Work on a state, which is its result."
work_on(state, blocking, starting, arguments...) = Work(;
    blocking = blocking, starting = starting, arguments = (handle(state), arguments...), kept = state, result = () -> state,
)

"Starts the work when that of the tickets has succeeded. Ctrl-C comes when the ticket is there."
function start(work::Work, after::AbstractVector{Ticket} = Ticket[])
    own = work.options === nothing ? () : (work.options,)
    ticket = Ref{mmsb_ticket_t}(0)
    return disable_sigint() do
        GC.@preserve work with_work(after) do options
            check(work.starting(work.arguments..., own..., options, work.results..., ticket))
        end
        return keep_while_running(Ticket(ticket[], (work, work.kept), work.result))
    end
end

"""
Does the work while other tasks run, and returns its result. When the time is over, or an InterruptException comes, the work is
stopped first. The blocking form is for a timeout of 0, a try that takes a moment, and for a thread that has a group open, which
starts no work. `tries = false`: a timeout of 0 starts the work, too, and stops it at once.
"""
function run_work(work::Work, timeout::Union{Real,Nothing}; tries::Bool = true)
    limit = nanoseconds(timeout)
    limit == 0 && tries && return run_here(work, limit)
    ticket = try
        start(work)
    catch failure
        failure isa MMSBError && failure.code == MMSB_E_INVALID_STATE || rethrow()
        return run_here(work, limit)
    end
    try
        if !await_end(ticket, timeout === nothing ? Inf : timeout) && !stop(ticket)
            reject(MMSB_E_TIMEOUT, "the work did not end within $timeout seconds and was stopped")
        end
        return fetch(ticket)
    catch failure
        failure isa InterruptException && stop(ticket) && work.undo()
        rethrow()
    finally
        close(ticket)
    end
end

function run_here(work::Work, limit)
    options = work.options === nothing ? initialised(mmsb_work_options_t, mmsb_work_options_init) : work.options
    options[] = with_fields(options[], (timeout_ns = limit,))
    GC.@preserve work check(work.blocking(work.arguments..., options, work.results...))
    return work.result()
end

"A move of many pages to another location, whose result is given."
function moving_many(pages, location, device, result)
    handles = mmsb_page_t[handle(page) for page in pages]
    return Work(;
        blocking = (arguments...) -> mmsb_page_migrate_many(arguments..., C_NULL),
        starting = mmsb_page_migrate_many_start,
        arguments = (handles, length(handles), placement(location, device)...),
        results = (C_NULL,),
        kept = map(owner, pages),
        result = () -> result,
    )
end

"A sync of many pages, whose result is given."
function syncing_many(pages, direction, device, result)
    handles = mmsb_page_t[handle(page) for page in pages]
    return Work(;
        blocking = (arguments...) -> mmsb_page_sync_many(arguments..., C_NULL),
        starting = mmsb_page_sync_many_start,
        arguments = (handles, length(handles), direction, device),
        results = (C_NULL,),
        kept = map(owner, pages),
        result = () -> result,
    )
end

"A timeout in seconds as the library has it; `nothing` and `Inf`: no limit."
function nanoseconds(timeout::Union{Real,Nothing})
    timeout === nothing && return MMSB_WAIT_FOREVER
    timeout >= 0 || throw(ArgumentError("timeout is $timeout; the minimum is 0 seconds"))
    return timeout * 1e9 < typemax(Int64) ? floor(UInt64, timeout * 1e9) : MMSB_WAIT_FOREVER
end
