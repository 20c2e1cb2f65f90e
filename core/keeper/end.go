// Closing a store.

package keeper

import (
	"time"

	"libmmsb/core/log"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
)

// groupsPatience is how long a store that is closed waits for groups of other threads. Tests wait for less.
var groupsPatience = 10 * time.Second

// End ends a context. A store is saved before where that has what the journal has not: bytes that programs may have written
// through pointers, unless the keeper never saves by itself, and the last changes before the disk failed. It has ended all the
// same where that fails: no later call could do it better.
func End(context uint64) error {
	unsaved := saveBeforeEnd(context)
	err := page.Destroy(context) // who finds it ended has lost nothing
	if unsaved == nil || status.CodeOf(err) == status.StaleHandle {
		return err
	}
	why := status.Of(unsaved)
	unsaved = &status.Error{Code: why.Code, Domain: why.Domain, Foreign: why.Foreign,
		Text: "the store was closed without a save, bytes written through pointers since the last one are lost: " + why.Text}
	log.Logf(log.Error, "%v", unsaved) // a finalizer has nobody to tell
	return unsaved
}

// EndAll ends every context.
func EndAll() {
	for context := range page.All() {
		_ = End(context)
	}
}

// saveBeforeEnd is an error where bytes without records were not saved; changes that the journal lacks it tells itself.
func saveBeforeEnd(context uint64) error {
	k, err := keeperOf(context)
	if err != nil {
		return nil
	}
	_ = persist.SyncJournal(context, nil) // what the disk refuses now can still be saved
	lacks := persist.LacksRecords(context)
	written := k.mayBeWritten() && (k.options.SaveBytes != Never || k.options.SaveInterval != 0)
	if !lacks && !written {
		return nil
	}
	_ = page.RollbackGroup(context) // of this thread, which could not wait for it
	over := make(chan struct{})
	defer time.AfterFunc(groupsPatience, func() { close(over) }).Stop()
	if err = persist.AwaitGroups(context, over); err == nil {
		err = k.saveIf(func() bool { return persist.LacksRecords(context) || k.changed() })(nil)
	}
	if !written {
		return nil
	}
	return err
}
