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

// End ends a context. A store is saved before, unless its keeper never saves by itself, where programs may have written bytes
// through pointers, which have no records. It has ended all the same where that fails: no later call could do it better.
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

func saveBeforeEnd(context uint64) error {
	k, err := keeperOf(context)
	if err != nil || k.options.SaveBytes == Never && k.options.SaveInterval == 0 || !persist.MayBeWritten(context) {
		return nil
	}
	over := make(chan struct{})
	defer time.AfterFunc(groupsPatience, func() { close(over) }).Stop()
	if err := persist.AwaitGroups(context, over); err != nil {
		return err
	}
	return k.saveIf(k.changed)(nil)
}
