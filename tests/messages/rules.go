package messages

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// notYet are rooms whose messages have not been gone through. The list shall become empty.
var notYet = []string{}

const longest = 160

// A rule is a pattern that no message may match, and what to write in its stead.
type rule struct {
	pattern *regexp.Regexp
	advice  string
}

var rules = []rule{
	{regexp.MustCompile(`^[A-Z][a-z]`), "begin with a small letter"},
	{regexp.MustCompile(`\.$`), "end without a period"},
	{regexp.MustCompile(`(?i)^(a|an) `), "begin with the subject, without an article: size is %d, ..."},
	{regexp.MustCompile(`%\S+ (is|are) no (lo[^n]|l[^o]|[^l])`), "write: is not a ..."},
	{regexp.MustCompile(`\bwanted\b`), "say what exceeds which limit"},
	{regexp.MustCompile(`%\S+ can be$`), "name the limit: more than %d"},
	{regexp.MustCompile(`\bcannot be %[qsd]$`), "say why, or what is allowed"},
	{regexp.MustCompile(`^[a-z_ ]+ (is|of) %[lz]*[dux]$`), "say what is allowed: ..., at least %d is needed"},
	{regexp.MustCompile(`(?i)\b(we|our|ours|us|my)\b`), "name the subject, not a person"},
	{regexp.MustCompile(`\b(look at|likes|never right|rubbish|riddle|stretch|promised?|booked|given (out|back)|any more)\b`),
		"use the words of docs/glossary.md"},
	{regexp.MustCompile(`[^\x00-\x7f]`), "write ASCII"},
}

// needNumber are the codes whose messages say how much was asked for, and what the limit is.
var needNumber = []string{"LIMIT", "INVALID_SIZE", "OUT_OF_RANGE", "EPOCH"}

var number = regexp.MustCompile(`%[#0-9.]*(l|ll|z)?[dux]|\d`)

// Faults are the rules that a message breaks. Help is prose: sentences, as long as they must be.
func Faults(m Message) (faults []string) {
	if m.Code == "help" {
		return nil
	}
	for _, r := range rules {
		if r.pattern.MatchString(m.Text) {
			faults = append(faults, fmt.Sprintf("%q: %s", r.pattern, r.advice))
		}
	}
	if length := utf8.RuneCountInString(m.Text); length > longest {
		faults = append(faults, fmt.Sprintf("has %d characters, more than %d", length, longest))
	}
	for _, code := range needNumber {
		if m.Code == code && m.Room != strerror && !number.MatchString(m.Text) {
			faults = append(faults, "say the number and its limit")
		}
	}
	return faults
}

// checked says whether a room's messages have been gone through.
func checked(room string) bool {
	for _, other := range notYet {
		if room == other || strings.HasPrefix(room, other+"/") {
			return false
		}
	}
	return true
}
