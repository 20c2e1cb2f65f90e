// Code generated from include/mmsb.h by "make generate". DO NOT EDIT.

package status

// The codes of mmsb.h.
const (
	OK              Code = 0
	InvalidArgument Code = 10
	InvalidHandle   Code = 11
	StaleHandle     Code = 12
	InvalidSize     Code = 13
	OutOfRange      Code = 14
	InvalidState    Code = 15
	StructVersion   Code = 16
	Mismatch        Code = 17
	Epoch           Code = 18
	NotFound        Code = 20
	AlreadyExists   Code = 21
	Busy            Code = 22
	WouldBlock      Code = 23
	Timeout         Code = 24
	Cancelled       Code = 25
	OutOfMemory     Code = 30
	Limit           Code = 31
	NoSpace         Code = 32
	NotDurable      Code = 33
	Unsupported     Code = 40
	NoDevice        Code = 41
	Device          Code = 42
	DeviceLost      Code = 43
	Forked          Code = 44
	IO              Code = 50
	Corrupt         Code = 51
	Format          Code = 52
	Guard           Code = 53
	Peer            Code = 60
	Internal        Code = 90
	Poisoned        Code = 91
)

// names is keyed by code, so that a value that is used twice does not compile.
var names = map[Code]string{
	OK:              "MMSB_OK",
	InvalidArgument: "MMSB_E_INVALID_ARGUMENT",
	InvalidHandle:   "MMSB_E_INVALID_HANDLE",
	StaleHandle:     "MMSB_E_STALE_HANDLE",
	InvalidSize:     "MMSB_E_INVALID_SIZE",
	OutOfRange:      "MMSB_E_OUT_OF_RANGE",
	InvalidState:    "MMSB_E_INVALID_STATE",
	StructVersion:   "MMSB_E_STRUCT_VERSION",
	Mismatch:        "MMSB_E_MISMATCH",
	Epoch:           "MMSB_E_EPOCH",
	NotFound:        "MMSB_E_NOT_FOUND",
	AlreadyExists:   "MMSB_E_ALREADY_EXISTS",
	Busy:            "MMSB_E_BUSY",
	WouldBlock:      "MMSB_E_WOULD_BLOCK",
	Timeout:         "MMSB_E_TIMEOUT",
	Cancelled:       "MMSB_E_CANCELLED",
	OutOfMemory:     "MMSB_E_OUT_OF_MEMORY",
	Limit:           "MMSB_E_LIMIT",
	NoSpace:         "MMSB_E_NO_SPACE",
	NotDurable:      "MMSB_E_NOT_DURABLE",
	Unsupported:     "MMSB_E_UNSUPPORTED",
	NoDevice:        "MMSB_E_NO_DEVICE",
	Device:          "MMSB_E_DEVICE",
	DeviceLost:      "MMSB_E_DEVICE_LOST",
	Forked:          "MMSB_E_FORKED",
	IO:              "MMSB_E_IO",
	Corrupt:         "MMSB_E_CORRUPT",
	Format:          "MMSB_E_FORMAT",
	Guard:           "MMSB_E_GUARD",
	Peer:            "MMSB_E_PEER",
	Internal:        "MMSB_E_INTERNAL",
	Poisoned:        "MMSB_E_POISONED",
}

// Whose number Error.Foreign is: the MMSB_DOMAIN_* of mmsb.h.
const (
	DomainNone  int32 = 0
	DomainErrno int32 = 1
	DomainCUDA  int32 = 2
	DomainNCCL  int32 = 3
	DomainNIXL  int32 = 4
)
