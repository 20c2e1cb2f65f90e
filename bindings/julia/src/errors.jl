# Errors. Each has a status code of the library and one line of text.

"Supertype of all errors of the package. Each has `code`, a status code of mmsb.h, and `message`."
abstract type AbstractMMSBError <: Exception end

for (name, meaning) in (
    (:MMSBError, "A status without a type of its own in this package; `code` says which."),
    (:PageNotFoundError, "The state has no page with this id."),
    (:UnsupportedLocationError, "The location is not available: there is no such device, or it is not possible here."),
    (:StaleHandleError, "The state was closed or the page deleted."),
    (:OutOfRangeError, "A position is past the end."),
    (:MismatchError, "Two arguments do not fit each other: lengths, or pages of different states."),
    (:EpochError, "A delta's epoch is not larger than the page's."),
    (:PageBusyError, "The page is pinned, or running work holds it."),
    (:WaitTimeoutError, "The time is over. Work of a ticket goes on; what a call did was stopped and has changed nothing."),
    (:WorkCancelledError, "The work was cancelled and has changed nothing."),
    (:CorruptFileError, "A checksum or a structure of a file is wrong; the message names page and offset."),
    (:GuardError, "The guard found a write where nobody may write; the message says where. The call did nothing else."),
    (
        :NotDurableError,
        "The call has done what it does, but the journal may not have it on disk. A page that it created is in `get_pages`.",
    ),
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
    code == MMSB_E_TIMEOUT || code == MMSB_E_WOULD_BLOCK ? WaitTimeoutError :
    code == MMSB_E_CANCELLED ? WorkCancelledError :
    code == MMSB_E_CORRUPT ? CorruptFileError :
    code == MMSB_E_GUARD ? GuardError :
    code == MMSB_E_NOT_DURABLE ? NotDurableError :
    code == MMSB_E_LIMIT || code == MMSB_E_OUT_OF_MEMORY ? MemoryLimitError :
    MMSBError

Base.showerror(io::IO, failure::AbstractMMSBError) =
    print(io, nameof(typeof(failure)), ": ", failure.message, " (code ", failure.code, ")")

"""
Text of this thread's last failed call. Nothing here yields, so the task is still on the thread of the call. If a finalizer
failed in between, the text is that of another call: then the meaning of the code is returned.
"""
function last_message(status)
    text = unsafe_string(mmsb_last_error())
    return mmsb_last_error_code() == status ? text : unsafe_string(mmsb_strerror(status))
end

"The error of this thread's last call, which has failed."
last_failure(status::Int32) = error_type(status)(status, last_message(status))

@noinline throw_status(status) = throw(last_failure(status))

"Throws the error of a status that is not MMSB_OK."
check(status::Int32) = status == MMSB_OK ? nothing : throw_status(status)

"Throws the error for a failure that is found before the library is called."
@noinline reject(code, message) = throw(error_type(code)(code, message))
