package residency

import (
	"sync"

	"libmmsb/core/region"
)

// hostCopies are a context's pages of devices that have a copy on the host, by record.
type hostCopies struct {
	sync.Mutex
	pages map[uint32]hostCopy
}

// hostCopy is such a copy: of which version it is on the device, and what the device had where somebody else may write there
// meanwhile.
type hostCopy struct {
	version uint64
	before  uint32 // region; 0 = none
}

func (h *hostCopies) begin(index uint32, of hostCopy) {
	h.Lock()
	defer h.Unlock()
	if h.pages == nil {
		h.pages = make(map[uint32]hostCopy)
	}
	h.pages[index] = of
}

func (h *hostCopies) of(index uint32) hostCopy {
	h.Lock()
	defer h.Unlock()
	return h.pages[index]
}

func (h *hostCopies) end(index uint32) {
	h.Lock()
	defer h.Unlock()
	if of := h.pages[index]; of.before != 0 {
		region.Unmap(of.before)
	}
	delete(h.pages, index)
}
