// Code generated from include/mmsb.h by "make generate". DO NOT EDIT.

// Package abi holds constants of mmsb.h, for packages that do not include it.
package abi

// WaitForever is the timeout that never ends.
const WaitForever uint64 = 18446744073709551615

// MMSB_KIND_*.
const (
	KindPage        = 1
	KindContext     = 2
	KindTicket      = 3
	KindSnapshot    = 6
	KindStream      = 7
	KindBlock       = 8
	KindUse         = 9
	KindRuntime     = 11
	KindReservation = 12
	KindCapture     = 13
	KindCommands    = 14
	KindDelta       = 4
	KindMemory      = 5
	KindTensor      = 10
)

// MMSB_LOCATION_*.
const (
	LocationDefault = -1
	LocationCPU     = 0
	LocationGPU     = 1
	LocationUnified = 2
	LocationPinned  = 3
	LocationDisk    = 4
)

// LocationNames has their names, as texts for people have them, at their values.
var LocationNames = [...]string{
	LocationCPU:     "cpu",
	LocationGPU:     "gpu",
	LocationUnified: "unified",
	LocationPinned:  "pinned",
	LocationDisk:    "disk",
}

// MMSB_LOG_*.
const (
	LogOff     = 0
	LogError   = 1
	LogWarning = 2
	LogInfo    = 3
	LogDebug   = 4
)

// LogNames has their names, as texts for people have them, at their values.
var LogNames = [...]string{
	LogOff:     "off",
	LogError:   "error",
	LogWarning: "warning",
	LogInfo:    "info",
	LogDebug:   "debug",
}

// MMSB_SIMULATE_*.
const (
	SimulateOff     = 0
	SimulateIfNoGPU = 1
	SimulateAlways  = 2
)

// SimulateNames has their names, as texts for people have them, at their values.
var SimulateNames = [...]string{
	SimulateOff:     "off",
	SimulateIfNoGPU: "if-no-gpu",
	SimulateAlways:  "always",
}

// MMSB_FALLBACK_*.
const (
	FallbackError    = 0
	FallbackHost     = 1
	FallbackSimulate = 2
)

// FallbackNames has their names, as texts for people have them, at their values.
var FallbackNames = [...]string{
	FallbackError:    "error",
	FallbackHost:     "host",
	FallbackSimulate: "simulate",
}

// MMSB_DELTA_*.
const (
	DeltaDenseBytes = 1
	DeltaDenseBits  = 2
	DeltaSparseBits = 3
	DeltaIndexed    = 4
	DeltaRuns       = 5
)

// DeltaNames has their names, as texts for people have them, at their values.
var DeltaNames = [...]string{
	DeltaDenseBytes: "dense-bytes",
	DeltaDenseBits:  "dense-bits",
	DeltaSparseBits: "sparse-bits",
	DeltaIndexed:    "indexed",
	DeltaRuns:       "runs",
}

// MMSB_COMPRESSION_*.
const (
	CompressionNone = 0
	CompressionZstd = 1
)

// MMSB_RAW_WRITES_*.
const (
	RawWritesAllow  = 0
	RawWritesRefuse = 1
	RawWritesWait   = 2
)

// MMSB_DURABILITY_*.
const (
	DurabilityInterval = 0
	DurabilityCall     = 1
	DurabilityNone     = 2
)

// MMSB_ACCESS_*.
const (
	AccessRead      = 1
	AccessWrite     = 2
	AccessReadWrite = 3
)

// MMSB_CHANGE_*.
const (
	ChangeAdded   = 1
	ChangeRemoved = 2
	ChangeBytes   = 3
	ChangeOther   = 4
)

// MMSB_STORE_*.
const (
	StoreWrite  = 0
	StoreRead   = 1
	StoreBranch = 2
	StoreFollow = 3
)

// MMSB_DEVICE_*.
const (
	DeviceHost    = -1
	DeviceNone    = -2
	DeviceStandIn = 1024
)

// MMSB_SLEEP_*.
const (
	SleepDrop = 1
	SleepKeep = 2
	SleepFile = 3
)

// MMSB_PLUGIN_*.
const (
	PluginOrdered = 0
	PluginSegment = 1
)

// MMSB_PICTURE_*.
const (
	PictureTorch = 0
	PictureJSON  = 1
	PictureHTML  = 2
)
