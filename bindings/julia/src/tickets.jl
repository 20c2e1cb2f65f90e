# Tickets: asynchronous work.

"""
    Ticket

Asynchronous work of the library. `isready(ticket)`: whether it has ended. `wait(ticket; timeout)` waits for its end,
`fetch(ticket)` waits and returns the result. `progress(ticket)`: how much is done. `cancel!(ticket)` asks it to stop;
`close(ticket)` does that and waits until it has stopped.
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

"Waits for work that only the caller knows, closes its ticket and returns the result."
finish_work(ticket::Ticket) = closing(fetch, ticket)

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

Base.show(io::IO, ticket::Ticket) = print(io, "Ticket(", isready(ticket) ? "ended" : "running", ")")
