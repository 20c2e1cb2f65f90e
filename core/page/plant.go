package page

// bug is one that can be planted (core/plant), to show that the tests of ids find it.
type bug int

const (
	noBug                           bug = iota
	bugInverseIsTooShort                // Newton stops too early: the inverse's high bits are wrong
	bugIDIsChosenTwice                  // who chooses an id does not look whether another did
	bugComingPageIsNotMarked            // the record of a page to come does not know that its id is taken
	bugMarkIsNotAwaited                 // a thread that has not seen the mark may still be creating the page
	bugBeginningPageIsIgnored           // an id is given away that a page has which is about to begin
	bugLivePageIsIgnored                // and one that a page has
	bugPageThatIsHasBeen                // a record's present page counts as a former one
	bugPastIsMarked                     // a mark for a page that has been, which nobody takes away
	bugTakenIDIsPicked                  // a marked record's page begins with the id all the same
	bugWaitingMarksAreForgotten         // a chunk comes without the marks that wait for it
	bugOtherChunksMarksAreForgotten     // a chunk takes the marks of others with it
	bugWaitingMarksPileUp               // marks stay that wait for ids nobody has any more
	bugTidyForgetsWhatIsInUse           // and with these those go that wait for ids somebody has
	bugMarksOutliveTheirContext         // a chunk keeps the marks of the context that had it
	bugLoadedIDsAreNotMarked            // a load's ids are not those of pages to come
	bugIDIsThatOfTheNextPage            // the map has a handle of another generation
	bugIDStaysTaken                     // an ended page keeps its id
	bugFailureKeepsID                   // a page that did not begin keeps its id
	bugPageIsFoundBeforeItBegins        // Lookup tells of a page that cannot be used yet
	bugs                                // their number
)
