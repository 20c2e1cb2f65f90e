//go:build cgo

package main

import (
	"context"

	"libmmsb/cmd/mmsb/internal/command"
	"libmmsb/core/pool"
	"libmmsb/core/trace"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/player"
	"libmmsb/gpu/sim"
)

// replayTrace plays a trace on a device of the driver, or on a simulated one that does not look for mistakes and writes nothing.
var replayTrace command.Replay = func(ctx context.Context, t *trace.Trace, on command.ReplayOn, options *pool.Options,
	progress func(done, total uint64)) (command.Replayed, error) {
	of, end, err := driverOf(on)
	if err != nil {
		return command.Replayed{}, err
	}
	defer end()
	device, err := of.Open(max(on.Ordinal, 0))
	if err != nil {
		return command.Replayed{}, err
	}
	r, err := player.Run(ctx, device, t, player.Options{Pool: options, Threads: on.Threads, Speed: on.Speed,
		Progress: progress})
	if err != nil {
		return command.Replayed{}, err
	}
	info := device.Info()
	done := command.Replayed{Device: info.Name, DeviceBytes: info.Bytes, Calls: r.Calls, Hits: r.Hits,
		Nanoseconds: r.Time.Nanoseconds(), Busy: r.Busy.Nanoseconds(), Reserved: r.Reserved, Live: r.Live,
		DriverCalls: r.Driver.All(), Created: r.Driver.Created, Destroyed: r.Driver.Destroyed, Mapped: r.Driver.Mapped,
		Unmapped: r.Driver.Unmapped, Allocated: r.Driver.Allocated, Freed: r.Driver.Freed, Retries: r.Pool.Retries,
		Waits: r.Pool.Waits, Failures: r.Failures}
	if r.First != nil {
		done.FirstFailure = r.First.Error()
	}
	return done, nil
}

func driverOf(on command.ReplayOn) (of driver.Driver, end func(), err error) {
	if on.Ordinal < 0 {
		simulated, err := sim.New(sim.Options{Memory: on.Memory, HostMemory: 1 << 20, Unchecked: true})
		if err != nil {
			return nil, nil, err
		}
		return simulated, simulated.Close, nil
	}
	set := devices.NewSet(devices.Options{})
	of, err = set.Driver()
	if err != nil {
		set.Close()
	}
	return of, set.Close, err
}
