package native

/*
#include "commands.h"

// The workers of a buffer, and its end, call back into Go: for what commands ask of it, and while they wait.
*/
import "C"

// CommandsMost is how many command buffers there may be at a time.
const CommandsMost = uint64(C.MMSB__COMMANDS_MOST)

// CommandsCapacityMost is the largest capacity of a command buffer.
const CommandsCapacityMost = uint64(C.MMSB__COMMAND_CAPACITY_MOST)

// OpenCommands opens the command buffer of a new handle. A failure is the thread's last error.
func OpenCommands(handle, capacity uint64, workers uint32, persistent int32) int32 {
	return int32(C.mmsb__commands_open(C.uint64_t(handle), C.uint64_t(capacity), C.uint32_t(workers), C.int(persistent)))
}

// WorkOnCommands executes commands of a buffer until it is closed and empty, or ends.
func WorkOnCommands(handle uint64) { C.mmsb__commands_work(C.uint64_t(handle)) }

// EndCommands ends a buffer: nobody is in it any more. A failure is the thread's last error.
func EndCommands(handle uint64) int32 { return int32(C.mmsb__commands_end(C.uint64_t(handle))) }

// CommandsBytes is the memory of the rings of all buffers.
func CommandsBytes() uint64 { return uint64(C.mmsb__commands_bytes()) }
