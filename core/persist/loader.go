package persist

import (
	"sync"
	"sync/atomic"

	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/page"
	"libmmsb/core/residency"
	"libmmsb/core/snapshot"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// LoadOptions has the fields of mmsb_load_options_t.
type LoadOptions struct {
	Lazy             bool
	InPlace          bool     // memory for the bytes of pages is taken when the replaced ones have ended
	IDs              []uint64 // nil = the whole state
	Journal          string
	JournalUntil     uint64
	JournalUntilTime int64
	JournalPage      uint64 // only with JournalEpoch
	JournalEpoch     uint64
	Follows          bool        // for who follows the journal
	ToHost           bool        // pages come to the CPU that the snapshot has on devices
	Snapshot         snapshot.ID // that it must be; zeros = any
	Turn             *Turn       // of a load that was started
}

// loader is one load.
type loader struct {
	*state
	*page.Staging
	residency *residency.Residency
	o         *LoadOptions
	work      *ticket.Work
	file      *snapshot.Snapshot

	sums      map[uint32][]uint32 // of the chunks of large pages, by record
	changedIn map[uint32]int      // saved.changedIn
	done      uint64              // bytes of pages that came
	due       uint64              // bytes of the pages that are staged with their bytes
	postponed []postponed
	// filling is held where goroutines that fill pages meet the one that stages them: at Pages and sums.
	filling sync.Mutex

	journal    *journal.Replay // nil: none is replayed
	staged     []native.Staged // by add, to be used again
	inSnapshot []native.Staged // where records have made other pages: what was staged before
	line       lineage.Lineage // of the state that is staged, and where in it
	position   uint64

	unasked *atomic.Bool      // reads of the file do not ask whether the load goes on
	source  *residency.Source // of pages that are loaded lazily
	indexed chan struct{}     // is closed when the file's index is made; nil: nobody makes it

	branch       *openedJournal // the context's own journal, which goes on from what was loaded; nil: it has none
	branchFailed error          // why it has none any more
	replaced     bool           // the context has the new pages
}
