# Atomic groups: many changes of one task as one.

"""
    group(work, state)

Makes all that `work()` changes in the state one change, and returns what `work` returns:

    group(state) do
        write_page!(debit, bytes)
        write_page!(credit, bytes)
    end

At the end the changes are committed: after a crash the journal gives all of them back or none, and they cost one wait for the
disk. If `work` throws, they are undone, and pages that it has created are stale. Until then other threads that would change the
same pages get a `PageBusyError`. A pin can stop the undoing: then a warning says so, and the thread's next `group` on the state,
or the end of its next `with_page`, undoes the rest first; until then the thread can change nothing in the state. What is written
through `with_page` is not part of it. The group belongs to the thread: the task stays there, and other tasks that run on this
thread meanwhile are part of the group.
"""
function group(work, state::MMSBState)
    task = current_task()
    sticky = task.sticky
    task.sticky = true
    try
        failure = undo_rest(state)
        failure === nothing || throw(failure)
        begin_group(state)
        try
            result = work()
            call(mmsb_group_commit, state)
            return result
        catch
            failure = undo_group(state)
            failure === nothing ||
                @warn "a group could not be undone yet; its thread's next group on the state tries again" reason = failure
            rethrow()
        finally
            drop_released_arrays()    # of pages that the commit has ended, or whose adoption is undone
        end
    finally
        task.sticky = sticky
    end
end

# In short steps: a garbage collection of another thread, which may have the group that this one waits for, waits for calls.
function begin_group(state::MMSBState)
    while true
        status = mmsb_group_begin_within(handle(state), WAIT_SLICE_NS)
        status == MMSB_E_TIMEOUT || return check(status)
        yield()
    end
end

# Unless the end of its state or a commit that only the disk has failed has ended it. Returns the error that has stopped it, or
# nothing.
function undo_group(state::MMSBState)
    thread, context = Threads.threadid(), state.handle[]
    context == 0 && return nothing
    status = mmsb_group_rollback(context)
    undone = status in (MMSB_OK, MMSB_E_STALE_HANDLE, MMSB_E_INVALID_STATE)
    failure = undone ? nothing : last_failure(status)
    lock(() -> undone ? delete!(state.undoing, thread) : push!(state.undoing, thread), state.lock)
    return failure
end

"Undoes the rest of this thread's last group if it could not be undone yet. Returns what `undo_group` does."
function undo_rest(state::MMSBState)
    isempty(state.undoing) && return nothing
    return lock(() -> Threads.threadid() in state.undoing, state.lock) ? undo_group(state) : nothing
end
