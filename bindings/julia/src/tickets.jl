# Work that takes time.

"""
    Ticket

Work of the library that runs beside the program. `isready(ticket)` says whether it has ended, `wait(ticket; timeout)`
waits for that, `fetch(ticket)` waits and gives the result, `progress(ticket)` says how much is done, `cancel!(ticket)`
asks it to stop, and `close(ticket)` does that and waits until it has stopped.
"""
mutable struct Ticket
    handle::Threads.Atomic{UInt64}    # 0 once it is closed
    state::MMSBState
    result::Function                  # makes the result when the work has succeeded; holds the memory that the work fills

    Ticket(handle::UInt64, state, result) = finalizer(destroy_ticket, new(Threads.Atomic{UInt64}(handle), state, result))
end

"Calls `f(work)` with the options of work that begins when the work of these tickets has succeeded."
function with_work(f, after::AbstractVector{Ticket})
    waited_for = UInt64[handle(ticket) for ticket in after]
    work = Ref{mmsb_work_options_t}()
    mmsb_work_options_init(work)
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

# Tickets of work that may still write to its memory. They are not left to the garbage collector before it has ended.
const running = Ticket[]
const running_lock = ReentrantLock()

function keep_while_running(ticket::Ticket)
    lock(running_lock) do
        filter!(!isready, running)
        push!(running, ticket)
    end
    return ticket
end

# A closed ticket's work has ended.
Base.isready(ticket::Ticket) = ticket.handle[] == 0 || fill_reference(Int32, mmsb_ticket_poll, ticket) == 1

# The library waits for this long at a time: a call holds up Julia's garbage collector on all threads, and other tasks on its own.
const WAIT_SLICE_NS = UInt64(1_000_000)

"Waits in turns with the other tasks until the work has ended; whether it did in time."
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

Waits for the end of the work, in seconds; other tasks go on. Throws what the work failed with, or a `WaitTimeoutError`.
"""
function Base.wait(ticket::Ticket; timeout::Real = Inf)
    await_end(ticket, timeout) || reject(MMSB_E_TIMEOUT, "the work has not ended after $timeout seconds; it goes on")
    call(mmsb_ticket_wait, ticket, 0)
    return nothing
end

function Base.fetch(ticket::Ticket)
    wait(ticket)
    return ticket.result()
end

"The result of work that was started for the caller alone."
function finish_work(ticket::Ticket)
    try
        return fetch(ticket)
    finally
        close(ticket)
    end
end

"""
    progress(ticket) -> (done, total)

How much of the work is done; `total` is 0 while it is not known.
"""
function progress(ticket::Ticket)
    done, total = Ref{UInt64}(0), Ref{UInt64}(0)
    call(mmsb_ticket_progress, ticket, done, total)
    return Int(done[]), Int(total[])
end

"""
    cancel!(ticket)

Asks the work to stop and does not wait. It ends with a `WorkCancelledError` and has then changed nothing, unless it was done.
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

Base.show(io::IO, ticket::Ticket) = print(io, "Ticket(", isready(ticket) ? "ended" : "running", ")")
