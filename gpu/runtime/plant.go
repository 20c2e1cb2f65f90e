package runtime

// bug is one that can be planted (core/plant), to show that the tests find it.
type bug int

const (
	noBug                   bug = iota
	bugMissingWait              // no stream ever waits for another
	bugMarkCountsTooMuch        // an event is taken to cover one point more than it does
	bugReapsTooEarly            // memory counts as released although the device has not come past the free
	bugGenerationStays          // the next block of a slot has the handle of the last one
	bugAllocationIsNoWrite      // another stream's first use does not wait for the allocation
	bugOpenUsesIgnored          // conflicting uses may be open together: one does not know of the other's work
	bugWriterIgnoresReaders     // write after read
	bugWriteIsForgotten         // read after write, write after write
	bugReadIsForgotten          // nobody waits for a read
	bugOneReaderOnly            // a second reader takes the first one's place
	bugFreeDoesNotWait          // a free goes ahead of work that is being queued
	bugFreeIgnoresReaders       //
	bugFreeIgnoresWriter        //
	bugLedgerDrifts             // released bytes stay counted
	bugFailureStaysCharged      // what a failed allocation had charged stays charged
	bugs                        // their number
)
