package page

import (
	"fmt"
	"strings"

	"libmmsb/core/abi"
	"libmmsb/core/journal"
	"libmmsb/core/log"
	"libmmsb/core/residency"
	"libmmsb/core/safego"
)

// What becomes of pages whose device is lost in mid-work: those whose newest bytes the host has go on where the context's
// fallback says, the others are named. No call waits for that; a sync that has met the loss lets its own pages go on.

// LostPage is a page whose device is lost.
type LostPage struct {
	Page, ID, Size uint64
	Lost           uint64 // bytes that only the device had, or that it may have changed
	Device         int32
}

// lostPage says whether a page is one. Errors: handle errors.
func lostPage(page uint64) (l LostPage, lost bool, err error) {
	err = Read(page, func(p *Page) error {
		l = LostPage{Page: page, ID: p.ID(), Size: p.Record.Size, Device: p.Placement().Device}
		l.Lost, lost = p.Lost()
		return nil
	})
	return l, lost, err
}

// goOn lets a page go on whose device is lost, if it is one and has lost nothing. Errors: handle errors, Busy, those of Migrate.
func goOn(page uint64) (gone bool, err error) {
	device := int32(0)
	err = changeMemory(page, func(c *change) error {
		device = c.Placement().Device
		if bytes, lost := c.Lost(); !lost || bytes > 0 || c.context.fallback == abi.FallbackError {
			return nil
		}
		to, err := c.destination(abi.LocationCPU, 0)
		if err != nil {
			return err
		}
		err = c.move(to, c.keepingMemory(c.journalNext(journal.Migrate, journal.MigrateBody(to.Location, to.Device, c.Node()))))
		gone = err == nil
		return err
	})
	if gone { // its copy goes with it, where a device takes the place of the lost one
		_ = (&syncing{pages: []uint64{page}, direction: residency.ToDevice, device: device}).toDevice(0)
	}
	return gone, err
}

// LostPages lets pages go on whose device is lost, and lists those that cannot.
func (c *Context) LostPages() (left []LostPage) {
	left, _, _ = c.letGoOn()
	return left
}

// letGoOn says also how many pages have gone on, with how many bytes.
func (c *Context) letGoOn() (left []LostPage, pages, bytes uint64) {
	var cursor uint64
	handles := make([]uint64, 1024)
	for found := c.Pages(&cursor, handles); found > 0; found = c.Pages(&cursor, handles) {
		for _, page := range handles[:found] {
			l, lost, err := lostPage(page)
			if err == nil && lost && l.Lost == 0 {
				if gone, _ := goOn(page); gone {
					pages++
					bytes += l.Size
				}
				_, lost, err = lostPage(page) // another call may have let it go on
			}
			if err == nil && lost { // else it has ended, or goes on
				left = append(left, l)
			}
		}
	}
	return left, pages, bytes
}

// deviceLost comes when a call has met a device that is lost; it may have pages locked.
func (c *Context) deviceLost(device int32) {
	c.losses.Add(1)
	safego.Go(func() {
		defer c.losses.Done()
		_ = Use(c.handle, func(c *Context) error {
			left, pages, bytes := c.letGoOn()
			log.Logf(log.Warning, "device %d is lost: %d pages of %d bytes go on, %s", device, pages, bytes, sumOf(left))
			return nil
		})
	})
}

// mostNamed is how many pages a line of the log names.
const mostNamed = 4

// sumOf says what pages have lost.
func sumOf(left []LostPage) string {
	var lost, held, bytes uint64
	var names strings.Builder
	for _, l := range left {
		if l.Lost == 0 {
			held++
			continue
		}
		if lost++; lost <= mostNamed {
			fmt.Fprintf(&names, ", 0x%016x (id %d): %d of %d", l.Page, l.ID, l.Lost, l.Size)
		}
		bytes += l.Lost
	}
	if lost > mostNamed {
		names.WriteString(", …")
	}
	return fmt.Sprintf("%d have lost %d bytes, %d have lost nothing and stay%s", lost, bytes, held, names.String())
}
