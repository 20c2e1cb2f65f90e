// Tickets that a program holds, by handle.

package ticket

import (
	"libmmsb/core/abi"
	"libmmsb/core/handle"
	"libmmsb/core/status"
)

var handles = handle.New[*Ticket](abi.KindTicket)

// Hold gives a ticket a handle; where there is none left, the ticket is cancelled and closed. Errors: Limit.
func Hold(t *Ticket) (uint64, error) {
	h, err := handles.Put(t)
	if err != nil {
		t.Cancel()
		t.Close()
	}
	return h, err
}

// Find is the ticket of a handle. Errors: InvalidHandle, StaleHandle.
func Find(h uint64) (*Ticket, error) { return handles.Get(h) }

// FindAll are the tickets of handles that work has to wait for. Errors: those of Find, which name the handle's number in after.
func FindAll(after []uint64) ([]*Ticket, error) {
	var found []*Ticket
	for i, h := range after {
		t, err := handles.Get(h)
		if err != nil {
			return nil, status.Errorf(status.CodeOf(err), "after[%d]: %s", i, status.Of(err).Text)
		}
		found = append(found, t)
	}
	return found, nil
}

// CloseHandle ends a handle and closes its ticket. Errors: InvalidHandle, StaleHandle.
func CloseHandle(h uint64) error {
	t, err := handles.Remove(h)
	if err == nil {
		t.Close()
	}
	return err
}

// CloseAllHandles closes the tickets that the program holds.
func CloseAllHandles() {
	for h := range handles.All() {
		_ = CloseHandle(h)
	}
}

// LiveHandles is the number of tickets that the program holds.
func LiveHandles() uint64 { return handles.Live() }
