package status_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"libmmsb/core/status"
)

func TestHiddenCharactersAreWritten(t *testing.T) {
	for text, want := range map[string]string{
		"state é 世界 \"a\" \\n":    "state é 世界 \"a\" \\n",
		"a\nmmsb: good\r\x1b[2J":  `a\nmmsb: good\r\x1b[2J`,
		"\x00\t\x7f":              `\x00\t\x7f`,
		"c1 \u0085\u009b":         `c1 \u0085\u009b`,
		"not UTF-8 \xff\xc3":      `not UTF-8 \xff\xc3`,
		"bidi \u202e\u2066\u200f": `bidi \u202e\u2066\u200f`,
		"lines \u2028\u2029":      `lines \u2028\u2029`,
		"":                        "",
	} {
		assert.Equal(t, want, status.Plain(text))
		assert.Equal(t, want, status.Of(status.Errorf(status.Corrupt, "%s", text)).Text)
		assert.Equal(t, "MMSB_E_IO: "+want, (&status.Error{Code: status.IO, Text: text}).Error())
	}
}
