// Package layout compares structs of Go and C that lie in the same memory, for tests.
package layout

import (
	"fmt"
	"reflect"
	"strings"
)

// Difference is the first field of a struct of Go that C names otherwise, or has at another place or in another size; "" is none.
// C's names may have underscores; otherNames are those that differ in more.
func Difference(ours, theirs any, otherNames map[string]string) string {
	a, b := reflect.TypeOf(ours), reflect.TypeOf(theirs)
	if a.NumField() != b.NumField() || a.Size() != b.Size() {
		return fmt.Sprintf("%v has %d fields and %d bytes, %v %d and %d", a, a.NumField(), a.Size(), b, b.NumField(), b.Size())
	}
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		named := y.Name == otherNames[x.Name] || strings.EqualFold(x.Name, strings.ReplaceAll(y.Name, "_", ""))
		if !named || x.Offset != y.Offset || x.Type.Size() != y.Type.Size() {
			return fmt.Sprintf("%v.%s has %d bytes at %d, %v.%s %d at %d", a, x.Name, x.Type.Size(), x.Offset, b, y.Name,
				y.Type.Size(), y.Offset)
		}
	}
	return ""
}
