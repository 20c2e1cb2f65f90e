package page

import (
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"libmmsb/core/abi"
	"libmmsb/core/environment"
	"libmmsb/core/file"
	"libmmsb/core/residency"
	"libmmsb/core/status"

	"golang.org/x/sys/unix"
)

// Options has the fields of mmsb_context_options_t.
type Options struct {
	DefaultLocation  int32
	DefaultDevice    int32
	Simulate         int32
	SimulatedDevices int32
	Fallback         int32
	SimulatedMemory  uint64
	MemoryLimit      uint64
	DiskPath         string
	HugePages        bool
	GuardEvery       uint64
	GuardQuarantine  uint64
}

func (o *Options) check() error {
	switch {
	case o.DefaultLocation < abi.LocationCPU || o.DefaultLocation > abi.LocationDisk:
		return status.Errorf(status.InvalidArgument, "default_location is %d, which is not a location", o.DefaultLocation)
	case o.Simulate < abi.SimulateOff || o.Simulate > abi.SimulateAlways:
		return status.Errorf(status.InvalidArgument, "simulate is %d, not off, if-no-gpu or always (is MMSB_SIMULATE set?)",
			o.Simulate)
	case o.Fallback < abi.FallbackError || o.Fallback > abi.FallbackSimulate:
		return status.Errorf(status.InvalidArgument, "fallback is %d, not error, host or simulate", o.Fallback)
	case o.SimulatedDevices < 1 || o.SimulatedDevices > 64:
		return status.Errorf(status.InvalidArgument, "simulated_devices is %d, not 1 to 64", o.SimulatedDevices)
	case o.GuardEvery == 0 && o.GuardQuarantine != 0:
		return status.Errorf(status.InvalidArgument, "guard_quarantine is %d, but guard_every is 0", o.GuardQuarantine)
	}
	if o.DiskPath == "" {
		o.DiskPath = file.Absolute(environment.TemporaryFolder()) // its file is made later
		return nil
	}
	if info, err := os.Stat(o.DiskPath); err != nil {
		return status.FromErrno(status.IO, status.ErrnoOf(err), "disk_path %q", o.DiskPath)
	} else if !info.IsDir() {
		return status.FromErrno(status.IO, unix.ENOTDIR, "disk_path %q", o.DiskPath)
	}
	if err := unix.Access(o.DiskPath, unix.W_OK|unix.X_OK); err != nil {
		return status.FromErrno(status.IO, status.ErrnoOf(err), "disk_path %q cannot be written", o.DiskPath)
	}
	o.DiskPath = file.Absolute(o.DiskPath)
	return residency.CheckFolder(o.DiskPath) // /proc, say, refuses whatever its permissions allow
}

// Parse changes options by a text like "memory_limit=1G simulate=if-no-gpu", or leaves them as they are. diskPath is the position
// of disk_path's value in the text, which runs to the text's end; -1 without one.
func (o *Options) Parse(text string) (diskPath int, err error) {
	changed := *o
	diskPath = -1
	for position := 0; position < len(text); {
		if strings.IndexByte(" ,\t\n", text[position]) >= 0 {
			position++
			continue
		}
		end := position + strings.IndexAny(text[position:]+" ", " ,\t\n")
		key, value, found := strings.Cut(text[position:end], "=")
		if !found {
			return -1, status.Errorf(status.InvalidArgument, "%q at position %d is not key=value", key, position)
		}
		if key == "disk_path" {
			diskPath = position + len("disk_path=")
			changed.DiskPath = text[diskPath:]
			if changed.DiskPath == "" || !utf8.ValidString(changed.DiskPath) {
				return -1, status.Errorf(status.InvalidArgument, "disk_path %q at position %d is empty or not UTF-8",
					changed.DiskPath, position)
			}
			break
		}
		if err := changed.set(key, value, position); err != nil {
			return -1, err
		}
		position = end
	}
	*o = changed
	return diskPath, nil
}

func (o *Options) set(key, value string, position int) error {
	choose := func(to *int32, names []string) error {
		number := slices.Index(names, value)
		if number < 0 {
			return status.Errorf(status.InvalidArgument, "%s %q at position %d is not one of its values", key, value, position)
		}
		*to = int32(number)
		return nil
	}
	size := func(to *uint64) error {
		number, err := parseSize(value)
		if err != nil {
			return status.Errorf(status.InvalidArgument, "%s %q at position %d is not a size", key, value, position)
		}
		*to = number
		return nil
	}
	number := func(to *int32) error {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return status.Errorf(status.InvalidArgument, "%s %q at position %d is not a number", key, value, position)
		}
		*to = int32(n)
		return nil
	}
	switch key {
	case "default_location", "location":
		return choose(&o.DefaultLocation, abi.LocationNames[:])
	case "default_device":
		return number(&o.DefaultDevice)
	case "simulate":
		return choose(&o.Simulate, abi.SimulateNames[:])
	case "simulated_devices":
		return number(&o.SimulatedDevices)
	case "simulated_memory":
		return size(&o.SimulatedMemory)
	case "fallback":
		return choose(&o.Fallback, abi.FallbackNames[:])
	case "memory_limit":
		return size(&o.MemoryLimit)
	case "guard_every":
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return status.Errorf(status.InvalidArgument, "%s %q at position %d is not a number", key, value, position)
		}
		o.GuardEvery = n
		return nil
	case "guard_quarantine":
		return size(&o.GuardQuarantine)
	case "huge_pages":
		var on int32
		if err := choose(&on, []string{"0", "1"}); err != nil {
			return err
		}
		o.HugePages = on != 0
		return nil
	}
	return status.Errorf(status.InvalidArgument, "unknown key %q at position %d", key, position)
}

// parseSize reads a number that may end in K, M, G or T.
func parseSize(text string) (uint64, error) {
	shift := 0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("KMGT", text[n-1]); i >= 0 {
			shift, text = 10*(i+1), text[:n-1]
		}
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err == nil && number > math.MaxUint64>>shift {
		return 0, strconv.ErrRange
	}
	return number << shift, err
}
