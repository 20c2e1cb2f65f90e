// Names of what memory is for.

package runtime

import (
	"strings"
	"sync"

	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
)

// Tag names what memory is for, in logs and reports. Equal names have equal tags; 0 is "untagged".
type Tag uint32

var tags = struct {
	sync.RWMutex
	names   []string
	numbers map[string]Tag
}{names: []string{"untagged"}, numbers: map[string]Tag{"untagged": 0, "": 0}}

// Most are the tags that a process may have: they stay until its end.
const mostTags = 1 << 16

// TagOf is the tag of a name. Errors: Limit (65 536 names), InvalidArgument (longer than 64 bytes).
func TagOf(name string) (Tag, error) {
	tags.RLock()
	tag, known := tags.numbers[name]
	tags.RUnlock()
	if known {
		return tag, nil
	}
	if len(name) > 64 {
		return 0, status.Errorf(status.InvalidArgument, "tag has %d bytes, more than 64", len(name))
	}
	tags.Lock()
	defer tags.Unlock()
	if tag, known := tags.numbers[name]; known {
		return tag, nil
	}
	if len(tags.names) == mostTags {
		return 0, status.Errorf(status.Limit, "all %d tags are used up", mostTags)
	}
	name = strings.Clone(name)
	tag = Tag(len(tags.names))
	tags.names, tags.numbers[name] = append(tags.names, name), tag
	blocks.SetTags(len(tags.names))
	return tag, nil
}

// Known says whether the tag is one of those that TagOf gave, or 0.
func (t Tag) Known() bool { return uint32(t) < blocks.Tags() }

// String is the tag's name.
func (t Tag) String() string {
	tags.RLock()
	defer tags.RUnlock()
	if int(t) < len(tags.names) {
		return tags.names[t]
	}
	return "unknown"
}
