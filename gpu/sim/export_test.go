// What tests see of a driver and programs do not.

package sim

import "libmmsb/gpu/driver"

// Ready is what Step can run: the first operation of each stream that waits for nothing. Only with Stepped.
func (d *Driver) Ready() []driver.Stream {
	d.turn.Lock()
	defer d.turn.Unlock()
	var streams []driver.Stream
	for _, s := range d.ready() {
		streams = append(streams, s.handle)
	}
	return streams
}

// Parties is how long clocks can become.
func (d *Driver) Parties() int {
	d.streamMutex.Lock()
	defer d.streamMutex.Unlock()
	return d.parties
}
