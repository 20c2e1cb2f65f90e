package page

import (
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/journal"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A caller may choose an id that the library would have picked for a page to come; no id is ever that of two pages.
func TestIdsThatTheCallerTakesAreNotPicked(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		page := create(t, c, 64, 0)
		index := native.Index(page)
		taken := make(map[uint64]bool)
		for generation := native.Generation(page) + 1; generation < native.Generation(page)+20; generation += 3 {
			id := c.ids.automatic(native.Handle(native.KindPage, generation, index))
			taken[id] = true
			create(t, c, 64, id)
		}
		far := c.ids.automatic(native.Handle(native.KindPage, 1, index+native.ChunkRecords*3)) // a chunk to come
		create(t, c, 64, far)
		for range 200 {
			require.Zero(t, native.Destroy(page))
			var pages [1]uint64
			if code := native.CreateBatch(c.handle, 64, true, pages[:]); code == native.EnterGo {
				pages[0] = create(t, c, 64, 0)
			}
			page = pages[0]
			id := recordID(native.Index(page), native.RecordAt(native.Index(page)).LoadState())
			require.False(t, taken[id])
			found, err := c.Lookup(id)
			require.NoError(t, err)
			require.Equal(t, page, found)
		}
		options := plain
		options.ID = far
		_, err := c.Create(64, options)
		require.Equal(t, status.AlreadyExists, status.CodeOf(err))
		options.ID = recordID(native.Index(page), native.RecordAt(native.Index(page)).LoadState())
		_, err = c.Create(64, options)
		require.Equal(t, status.AlreadyExists, status.CodeOf(err))
	})
}

// A page that begins has its automatic id from before anybody can see it.
func TestTheIDOfAPageThatBeginsCannotBeChosen(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		block, err := c.takeFor(64, &plain)
		require.NoError(t, err)
		page, err := c.publish(block, 64, 0, -1, 0, entry{kind: journal.Create}, func(p *locked) error {
			options := plain
			options.ID = c.ids.automatic(p.handle)
			_, err := c.Create(64, options)
			require.Equal(t, status.AlreadyExists, status.CodeOf(err))
			return nil
		})
		require.NoError(t, err)
		found, err := c.Lookup(c.ids.automatic(page))
		require.NoError(t, err)
		require.Equal(t, page, found)
	})
}
