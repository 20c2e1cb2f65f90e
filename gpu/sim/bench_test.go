package sim_test

import (
	"fmt"
	"testing"

	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// What the host pays for a call on a device that takes no time. live blocks stand beside: their number must not be felt.
func benchmark(b *testing.B, live int, body func(b *testing.B, d driver.Device, s driver.Stream)) {
	simulated, err := sim.New(sim.Options{Unchecked: true})
	if err != nil {
		b.Fatal(err)
	}
	defer simulated.Close()
	d, err := simulated.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	s, err := d.CreateStream(0)
	if err != nil {
		b.Fatal(err)
	}
	for range live {
		if _, err = d.AllocateOrdered(s, 1024); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	body(b, d, s)
}

func BenchmarkAllocateAndFreeOrdered(b *testing.B) {
	for _, live := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			benchmark(b, live, func(b *testing.B, d driver.Device, s driver.Stream) {
				for b.Loop() {
					block, _ := d.AllocateOrdered(s, 1024)
					_ = d.FreeOrdered(s, block)
				}
			})
		})
	}
}

func BenchmarkEvent(b *testing.B) {
	for name, call := range map[string]func(d driver.Device, s driver.Stream, e driver.Event){
		"record": func(d driver.Device, s driver.Stream, e driver.Event) { _ = d.RecordEvent(e, s) },
		"query":  func(d driver.Device, _ driver.Stream, e driver.Event) { _, _ = d.QueryEvent(e) },
		"wait":   func(d driver.Device, s driver.Stream, e driver.Event) { _ = d.Wait(s, e) },
	} {
		b.Run(name, func(b *testing.B) {
			benchmark(b, 0, func(b *testing.B, d driver.Device, s driver.Stream) {
				e, _ := d.CreateEvent()
				other, _ := d.CreateStream(0)
				_ = d.RecordEvent(e, other)
				for b.Loop() {
					call(d, s, e)
				}
			})
		})
	}
}

func BenchmarkFill(b *testing.B) {
	benchmark(b, 0, func(b *testing.B, d driver.Device, s driver.Stream) {
		block, _ := d.AllocateOrdered(s, 1024)
		for b.Loop() {
			_ = d.Fill(s, block, 1, 1024)
		}
	})
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		d, err := sim.New(sim.Options{Memory: 16 << 20})
		if err != nil {
			b.Fatal(err)
		}
		d.Close()
	}
}

// What a checked operation costs: a program of many schedules is made of these.
func BenchmarkCheckedOperations(b *testing.B) {
	d, err := sim.New(sim.Options{Memory: 16 << 20, Scheduler: sim.Seeded, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	device, err := d.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	var streams []driver.Stream
	for range 8 {
		s, _ := device.CreateStream(0)
		streams = append(streams, s)
	}
	e, _ := device.CreateEvent()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s := streams[i%8]
		block, _ := device.AllocateOrdered(s, 1024)
		_ = device.Fill(s, block, 1, 1024)
		_ = device.RecordEvent(e, s)
		_ = device.Wait(streams[(i+1)%8], e)
		_, _ = device.QueryEvent(e)
		_ = device.FreeOrdered(s, block)
	}
	if _, count := d.Violations(); count > 0 {
		b.Fatal(d.Problems())
	}
}
