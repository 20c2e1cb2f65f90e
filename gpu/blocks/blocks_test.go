package blocks

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"libmmsb/core/layout"
)

func TestGoAndCHaveTheSameLayouts(t *testing.T) {
	for _, pair := range layouts() {
		assert.Empty(t, layout.Difference(pair[0], pair[1], map[string]string{"_": "reserved"}))
	}
}
