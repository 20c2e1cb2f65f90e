// Calls that are made to fail, and devices that are lost.

package sim

import (
	"sync"

	"libmmsb/core/status"
)

// Call is a kind of call that can be made to fail, and that uses and schedules are named after.
type Call uint8

// The calls.
const (
	Allocate Call = iota
	Free
	Register
	Unregister
	AllocateOrdered
	FreeOrdered
	TrimOrdered
	Reserve
	Release
	CreatePhysical
	DestroyPhysical
	Map
	Unmap
	CreateStream
	DestroyStream
	QueryStream
	Synchronize // streams, events and devices
	CreateEvent
	DestroyEvent
	RecordEvent
	QueryEvent
	Wait
	Copy
	Fill
	Prefetch
	Advise
	LoadModule
	UnloadModule
	Function
	Launch
	MemoryInfo
	HostAccess // a touch of memory by the host, as the program reports it
	Capture    // the begin of a capture, as the program reports it
	calls
)

var callNames = [calls]string{
	"Allocate", "Free", "Register", "Unregister", "AllocateOrdered", "FreeOrdered", "TrimOrdered",
	"Reserve", "Release", "CreatePhysical", "DestroyPhysical", "Map", "Unmap",
	"CreateStream", "DestroyStream", "QueryStream", "Synchronize",
	"CreateEvent", "DestroyEvent", "RecordEvent", "QueryEvent", "Wait", "Copy", "Fill", "Prefetch", "Advise",
	"LoadModule", "UnloadModule", "Function", "Launch", "MemoryInfo", "HostAccess", "Capture",
}

func (c Call) String() string { return callNames[c] }

// Effect is what a fault does.
type Effect uint8

const (
	// Fail makes the call fail and change nothing: with OutOfMemory where it would take memory, else with Device.
	Fail Effect = iota
	// Lose loses the device in the call: it fails with DeviceLost, as does every later one.
	Lose
	// FailLater queues the work as always; it fails on the device, which is lost then. For other calls it is the same as Lose.
	FailLater
)

// Fault is planted bad luck.
type Fault struct {
	Device int
	Call   Call
	After  int // so many calls of the kind go well before
	Effect Effect
}

// faults are a device's; they are used up one by one.
type faults struct {
	mutex   sync.Mutex
	planted []Fault
}

// Inject plants a fault. The calls are counted from now on. Errors: NoDevice.
func (d *Driver) Inject(fault Fault) error {
	device, err := d.device(fault.Device)
	if err != nil {
		return err
	}
	device.faults.mutex.Lock()
	defer device.faults.mutex.Unlock()
	device.faults.planted = append(device.faults.planted, fault)
	device.trouble.Store(true)
	return nil
}

// Spare takes back faults that have not happened, and says how many those were.
func (d *Driver) Spare() (count int) {
	for _, device := range d.devices {
		device.faults.mutex.Lock()
		count += len(device.faults.planted)
		device.faults.planted = nil
		device.faults.mutex.Unlock()
	}
	return count
}

// meet is what happens to a call of a device that is lost or has faults planted. later says that its work shall fail on the
// device.
func (d *device) meet(call Call) (later bool, err error) {
	if d.lost.Load() {
		return false, d.isLost()
	}
	d.faults.mutex.Lock()
	defer d.faults.mutex.Unlock()
	hit := -1
	for i := range d.faults.planted {
		if fault := &d.faults.planted[i]; fault.Call == call {
			if fault.After == 0 {
				hit = i
			}
			fault.After--
		}
	}
	if hit < 0 {
		return false, nil
	}
	effect := d.faults.planted[hit].Effect
	d.faults.planted = append(d.faults.planted[:hit], d.faults.planted[hit+1:]...)
	switch effect {
	case Fail:
		switch call {
		case Allocate, AllocateOrdered, CreatePhysical, Reserve:
			return false, status.Errorf(status.OutOfMemory, "%v on %s: injected fault", call, d.info.Name)
		}
		return false, status.Errorf(status.Device, "%v on %s: injected fault", call, d.info.Name)
	case FailLater:
		if call == Copy || call == Fill || call == Launch {
			return true, nil
		}
	}
	d.lose()
	return false, d.isLost()
}

func (d *device) isLost() error {
	return status.Errorf(status.DeviceLost, "%s is lost", d.info.Name)
}
