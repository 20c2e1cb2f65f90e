package kernels

import (
	"fmt"
	"reflect"
	"testing"
)

// require has of testify's package what these tests need: that one imports net/http, whose build for AddressSanitizer, which
// nothing else wants, takes longer than all of these tests.
var require required

type required struct{}

// True ends a test where something is not; about is a format and its arguments.
func (required) True(t testing.TB, is bool, about ...any) {
	t.Helper()
	if !is {
		t.Fatal("not true" + described(about))
	}
}

func (required) Equal(t testing.TB, wanted, found any, about ...any) {
	t.Helper()
	if !reflect.DeepEqual(wanted, found) {
		t.Fatalf("%#v is wanted, found: %#v%s", wanted, found, described(about))
	}
}

func (required) NoError(t testing.TB, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v%s", err, described(about))
	}
}

func described(about []any) string {
	if len(about) == 0 {
		return ""
	}
	return ": " + fmt.Sprintf(fmt.Sprint(about[0]), about[1:]...)
}
