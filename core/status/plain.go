package status

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain is a text that may have names out of files, for a line of an error, a log or a terminal: what is not to be seen (line
// ends, escapes and other control characters, those that turn the direction of a text, bytes that are not UTF-8) is written
// like in a string of Go. All else stays as it is.
func Plain(text string) string {
	if strings.IndexFunc(text, hidden) < 0 && utf8.ValidString(text) {
		return text
	}
	var plain strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1, hidden(r):
			quoted := strconv.Quote(text[:size])
			plain.WriteString(quoted[1 : len(quoted)-1])
		default:
			plain.WriteString(text[:size])
		}
		text = text[size:]
	}
	return plain.String()
}

func hidden(r rune) bool { return !unicode.IsGraphic(r) }
