package simtest_test

import (
	"errors"
	"testing"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
	"libmmsb/gpu/sim/simtest"

	"github.com/stretchr/testify/require"
)

var small = sim.Options{Memory: 1 << 20}

// streams runs a program with so many streams.
func streams(d *sim.Driver, count int, program func(device driver.Device, streams []driver.Stream) error) error {
	device, err := d.Open(0)
	if err != nil {
		return err
	}
	var list []driver.Stream
	for range count {
		stream, err := device.CreateStream(0)
		if err != nil {
			return err
		}
		list = append(list, stream)
	}
	if err = program(device, list); err != nil {
		return err
	}
	for _, stream := range list {
		if err = device.DestroyStream(stream); err != nil {
			return err
		}
	}
	return nil
}

// Two streams with four operations each can be run in 8!/(4!·4!) orders.
func TestExploreTriesEveryOrder(t *testing.T) {
	seen := map[string]bool{}
	schedules, err := simtest.Explore(sim.Options{Memory: 1 << 20, Trace: true}, func(d *sim.Driver) error {
		return streams(d, 2, func(device driver.Device, s []driver.Stream) error {
			blocks := make([]driver.Address, 2)
			for i := range s {
				var err error
				if blocks[i], err = device.Allocate(driver.Plain, 256); err != nil {
					return err
				}
			}
			for range 4 {
				for i := range s {
					if err := device.Fill(s[i], blocks[i], 1, 256); err != nil {
						return err
					}
				}
			}
			if err := device.Synchronize(); err != nil {
				return err
			}
			order := ""
			for _, step := range d.Trace() {
				order += string(rune('0' + step.Stream))
			}
			seen[order] = true
			return errors.Join(device.Free(driver.Plain, blocks[0]), device.Free(driver.Plain, blocks[1]))
		})
	})
	require.NoError(t, err)
	require.Len(t, seen, 70)
	require.Equal(t, 70, schedules)
}

// A program that is wrong only where a query sees work undone is found, and its schedule runs again.
func TestExploreFindsWhatSeldomHappens(t *testing.T) {
	program := func(correct bool) func(d *sim.Driver) error {
		return func(d *sim.Driver) error {
			return streams(d, 2, func(device driver.Device, s []driver.Stream) error {
				block, err := device.Allocate(driver.Plain, 256)
				if err != nil {
					return err
				}
				for range 3 {
					err = errors.Join(err, device.Fill(s[0], block, 1, 256))
				}
				done, queryErr := device.QueryStream(s[0])
				if correct && !done {
					err = errors.Join(err, device.SynchronizeStream(s[0]))
				}
				return errors.Join(err, queryErr, device.Fill(s[1], block, 2, 256), device.Synchronize(),
					device.Free(driver.Plain, block))
			})
		}
	}
	schedules, err := simtest.Explore(small, program(true))
	require.NoError(t, err)
	require.Greater(t, schedules, 3)

	_, err = simtest.Explore(small, program(false))
	require.ErrorContains(t, err, "not ordered")
	require.ErrorContains(t, err, "schedule [")
	require.Error(t, simtest.Replay(small, simtest.Schedule{1}, program(false)), "nothing was done")
	require.NoError(t, simtest.Replay(small, simtest.Schedule{0, 0, 0}, program(false)), "all was done")
}

func TestExploreReportsLeaksAndErrors(t *testing.T) {
	_, err := simtest.Explore(small, func(d *sim.Driver) error {
		device, err := d.Open(0)
		if err == nil {
			_, err = device.Allocate(driver.Plain, 256)
		}
		return err
	})
	require.ErrorContains(t, err, "not freed")
	own := errors.New("the program's own")
	_, err = simtest.Explore(small, func(*sim.Driver) error { return own })
	require.ErrorIs(t, err, own)
}

func TestExploreRefusesProgramsThatDoNotEndOrRepeat(t *testing.T) {
	_, err := simtest.Explore(small, func(d *sim.Driver) error {
		return streams(d, 1, func(device driver.Device, s []driver.Stream) error {
			for range 20_000 {
				block, err := device.AllocateOrdered(s[0], 256)
				if err != nil {
					return err
				}
				if _, err = device.QueryStream(s[0]); err != nil {
					return err
				}
				if err = device.FreeOrdered(s[0], block); err != nil {
					return err
				}
			}
			return nil
		})
	})
	require.Equal(t, status.Limit, status.CodeOf(err))

	run := 0
	_, err = simtest.Explore(small, func(d *sim.Driver) error {
		run++
		return streams(d, 3, func(device driver.Device, s []driver.Stream) error {
			for _, stream := range s[:1+run%3] {
				block, err := device.AllocateOrdered(stream, 256)
				if err != nil {
					return err
				}
				if err = device.FreeOrdered(stream, block); err != nil {
					return err
				}
			}
			return device.Synchronize()
		})
	})
	require.Equal(t, status.InvalidState, status.CodeOf(err))
}
