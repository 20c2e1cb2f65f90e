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
same pages get a `PageBusyError`. What is written through `with_page` is not part of it. The group belongs to the thread: the
task stays there, and other tasks that run on this thread meanwhile are part of the group.
"""
function group(work, state::MMSBState)
    task = current_task()
    sticky = task.sticky
    task.sticky = true
    try
        call(mmsb_group_begin, state)
        try
            result = work()
            call(mmsb_group_commit, state)
            return result
        catch
            undo_group(state)
            rethrow()
        end
    finally
        task.sticky = sticky
    end
end

# Unless the end of its state or a commit that only the disk has failed has ended it.
function undo_group(state::MMSBState)
    isopen(state) || return nothing
    status = mmsb_group_rollback(handle(state))
    status in (MMSB_OK, MMSB_E_STALE_HANDLE, MMSB_E_INVALID_STATE) || throw_status(status)
    return nothing
end
