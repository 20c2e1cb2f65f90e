# Errors. Each has the library's code and its one line of text.

"What every error of the package is. Each has `code`, a status of mmsb.h, and `message`."
abstract type AbstractMMSBError <: Exception end

for (name, meaning) in (
    (:MMSBError, "A status that has no type of its own here; `code` tells which."),
    (:PageNotFoundError, "No page of the state has this id."),
    (:UnsupportedLocationError, "Pages cannot lie in this place: there is no such device, or it is not possible here."),
    (:StaleHandleError, "The state was closed or the page deleted."),
    (:OutOfRangeError, "A position reaches past the end."),
    (:MismatchError, "Two arguments do not fit each other: lengths, or pages of different states."),
    (:EpochError, "A delta's epoch is not larger than the page's."),
    (:PageBusyError, "The page is pinned, or held by work that runs."),
    (:WaitTimeoutError, "The time to wait was over; the work goes on."),
    (:WorkCancelledError, "The work was cancelled and has changed nothing."),
    (:CorruptFileError, "A checksum or a structure of a file is wrong; the message names page and offset."),
    (:MemoryLimitError, "The memory limit of the state is reached, or the system has no memory left."),
)
    @eval begin
        struct $name <: AbstractMMSBError
            code::Int32
            message::String
        end
        @doc $meaning $name
        export $name
    end
end

error_type(code) =
    code == MMSB_E_NO_DEVICE || code == MMSB_E_UNSUPPORTED ? UnsupportedLocationError :
    code == MMSB_E_STALE_HANDLE ? StaleHandleError :
    code == MMSB_E_OUT_OF_RANGE ? OutOfRangeError :
    code == MMSB_E_MISMATCH ? MismatchError :
    code == MMSB_E_EPOCH ? EpochError :
    code == MMSB_E_BUSY ? PageBusyError :
    code == MMSB_E_TIMEOUT ? WaitTimeoutError :
    code == MMSB_E_CANCELLED ? WorkCancelledError :
    code == MMSB_E_CORRUPT ? CorruptFileError :
    code == MMSB_E_LIMIT || code == MMSB_E_OUT_OF_MEMORY ? MemoryLimitError :
    MMSBError

Base.showerror(io::IO, failure::AbstractMMSBError) =
    print(io, nameof(typeof(failure)), ": ", failure.message, " (code ", failure.code, ")")

"""
Text of this thread's last failed call. Nothing here yields, so the task is still on the thread of the call. The text is
another's only where a finalizer failed in between; then the code's own meaning serves.
"""
function last_message(status)
    text = unsafe_string(mmsb_last_error())
    return mmsb_last_error_code() == status ? text : unsafe_string(mmsb_strerror(status))
end

@noinline throw_status(status) = throw(error_type(status)(status, last_message(status)))

"Throws what a status means, if it is not MMSB_OK."
check(status::Int32) = status == MMSB_OK ? nothing : throw_status(status)

"A failure that is seen before the library is called, told like the library would."
@noinline reject(code, message) = throw(error_type(code)(code, message))
